"""From whatever a library raises over a bad file to one error that a user can act on."""

from __future__ import annotations

import csv
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from dfstrans.errors import DfstransError

_DAMAGE = (
    OSError,
    EOFError,
    MemoryError,  # a damaged size
    ArithmeticError,
    SyntaxError,  # in the header of a .npy
    tokenize.TokenError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    RuntimeError,
    struct.error,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
    pa.ArrowException,
)


class EmptyTableError(DfstransError):
    """A file that should be a table, without a row."""


@contextmanager
def opening(path: Path, what: str) -> Iterator[None]:
    """Turn every failure to read `path` as `what` into a `DfstransError` that names the file and the remedy."""
    try:
        yield
    except DfstransError:
        raise
    except FileNotFoundError as error:
        raise DfstransError(f"expected {what} at {path}, got nothing there; check the path") from error
    except PermissionError as error:
        raise DfstransError(
            f"expected to be allowed to read {path}, but the system refused; change its permissions"
        ) from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DfstransError(
            f"expected {what} in {path}, but the file ends early, is damaged or is something else ({reason}); "
            "write it again or restore it from a copy"
        ) from error


def require_content(path: Path, what: str) -> None:
    """Refuse a file without a single byte."""
    with opening(path, what):
        if path.stat().st_size == 0:
            raise EmptyTableError(f"expected {what} in {path}, got an empty file; write it again or leave it out")
