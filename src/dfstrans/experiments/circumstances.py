"""Under what circumstances a figure was found: commit, versions, threads."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from dfstrans.artifact import library_versions


def commit() -> str | None:
    """The commit of the checkout that this code is in, with a + where files differ from it; None outside of one."""
    source = Path(__file__).resolve().parent
    known = _git(source, "ls-files", "--error-unmatch", Path(__file__).name)
    if known is None:  # an installed copy, which may lie inside of someone else's checkout
        return None
    name = _git(source, "rev-parse", "--short", "HEAD")
    changed = _git(source, "status", "--porcelain", "--untracked-files=no", "--", ":/src")
    return None if name is None else name + ("+" if changed else "")


def circumstances() -> dict[str, Any]:
    """The commit, the versions and the number of threads."""
    import torch

    return {"commit": commit(), "versions": library_versions(), "threads": torch.get_num_threads()}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
