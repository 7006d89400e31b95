"""Tokens of the API. Only digests are stored; one round of SHA-256 suffices, since tokens are 256 random bits."""

from __future__ import annotations

import hashlib
import secrets
from typing import Literal, get_args

from sqlalchemy import select
from sqlalchemy.orm import Session

from dfstrans.errors import DfstransError
from dfstrans.service.database import Token, now

Scope = Literal["read", "write", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)  # each includes those before it


def make_token(session: Session, name: str, scope: Scope) -> str:
    """Make a token, which is shown only once."""
    if session.scalars(select(Token).where(Token.name == name)).first() is not None:
        raise DfstransError(f"expected a new name for a token, got {name!r}, which one has or had; choose another name")
    secret = f"dft_{secrets.token_urlsafe(32)}"
    session.add(Token(name=name, scope=scope, digest=_digest(secret)))
    return secret


def revoke_token(session: Session, name: str) -> None:
    """Make a token unusable."""
    token = session.scalars(select(Token).where(Token.name == name)).first()
    if token is None:
        raise DfstransError(f"expected the name of a token, got {name!r}, which none has; list them")
    token.revoked = token.revoked or now()


def find_token(session: Session, secret: str) -> Token | None:
    """Return the token, unless it is unknown or revoked."""
    found = select(Token).where(Token.digest == _digest(secret), Token.revoked.is_(None))
    return session.scalars(found).first()


def allows(scope: str, needed: str) -> bool:
    """Return whether a scope includes another.

    >>> allows("admin", "write"), allows("read", "write")
    (True, False)
    """
    return SCOPES.index(scope) >= SCOPES.index(needed)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
