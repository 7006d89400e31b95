"""Atomic writes: a reader finds the old content or the new, never a partial file."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dfstrans.errors import DfstransError

_REMEDIES = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EACCES: "change the permissions or choose another place",
    errno.EPERM: "change the permissions or choose another place",
    errno.EROFS: "choose a writable place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "choose another place: a file is where a folder should be",
    errno.EEXIST: "choose another place: a file is where a folder should be",
    errno.EISDIR: "choose another name",
}


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Give a temporary path next to `target` to write a file or folder to; rename it to `target` on success.

    If the block fails, the temporary path is removed and `target` is unchanged. A disk or permission error becomes a
    `DfstransError`.
    """
    target = Path(target)
    temporary = target.with_name(_hidden_name(target, "tmp"))
    try:
        with explain_disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            replace_file(temporary, target)
    finally:
        _remove(temporary)


@contextmanager
def atomic_fill(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to fill; move its files into `folder` on success.

    Other files in `folder` stay. If the block fails, `folder` is unchanged.
    """
    folder = Path(folder).resolve()  # a link may lead to another disk, and a rename cannot cross disks
    hidden = _hidden_name(folder, "tmp")
    temporary = folder / hidden if folder.exists() else folder.with_name(hidden)  # inside: it may be a mount point
    try:
        with explain_disk_errors(folder):
            temporary.mkdir(parents=True)
            yield temporary
            if folder.exists():
                for file in sorted(temporary.iterdir()):
                    replace_file(file, folder / file.name)
            else:
                replace_file(temporary, folder)
    finally:
        _remove(temporary)


@contextmanager
def explain_disk_errors(target: Path, kept: str = "no file was left half-written") -> Iterator[None]:
    """Turn a disk or permission error into a `DfstransError` with a remedy and a note on what is kept."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "check the disk or choose another place")
        raise DfstransError(
            f"expected to write {target}, but the system refused: {error.strerror or error}; {remedy} ({kept})"
        ) from error


def replace_file(temporary: Path, target: Path) -> Path:
    """Flush a finished file or folder to disk and rename it to `target`, replacing what is there."""
    for file in [temporary] if temporary.is_file() else [path for path in temporary.rglob("*") if path.is_file()]:
        _flush(file)
    if not target.is_dir():
        temporary.replace(target)
    elif not temporary.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder of that name is in the way")
    else:
        _replace_folder(temporary, target)
    with suppress(OSError):  # some systems cannot flush a folder
        _flush(target.parent)
    return target


def _replace_folder(temporary: Path, target: Path) -> None:
    """Replace a folder by two renames; put the old one back if the second fails."""
    old = target.with_name(_hidden_name(target, "old"))
    target.rename(old)
    try:
        temporary.rename(target)
    except OSError:
        old.rename(target)
        raise
    _remove(old)


def _hidden_name(path: Path, suffix: str) -> str:
    return f".{path.name}.{uuid.uuid4().hex[:8]}.{suffix}"


def _flush(path: Path) -> None:
    """Make sure that a file's content, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
