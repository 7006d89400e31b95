"""Names that a user gives, checked against those that there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dfstrans.errors import DfstransError, did_you_mean, spelled


def check_names(setting: str, names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse a name that is not known, naming those that are, and the same one twice."""
    known = list(known)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise DfstransError(
            f"expected {spelled(setting)} among {', '.join(known)}, got {', '.join(unknown) or 'none'}; "
            f"{did_you_mean(unknown[0] if unknown else '', known)}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DfstransError(
            f"expected each of {spelled(setting)} once, got {', '.join(twice)} more often; name it once"
        )
