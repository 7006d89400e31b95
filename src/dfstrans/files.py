"""Writing files so that a reader finds the old content or the new, never half of it."""

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
    errno.EROFS: "choose a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "choose another place: a file is where a folder should be",
    errno.EEXIST: "choose another place: a file is where a folder should be",
    errno.EISDIR: "choose another name",
}


@contextmanager
def written_atomically(target: Path) -> Iterator[Path]:
    """Give a temporary path beside `target` to write to; rename it to `target` when the block ends well.

    The path may become a file or a folder. When the block fails, the temporary path is removed and whatever stood at
    `target` is as it was. A disk or permission error becomes a `DfstransError` that says so.
    """
    target = Path(target)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with disk_errors_explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            replace_file(temporary, target)
    finally:
        _remove(temporary)


@contextmanager
def filled_at_once(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to fill; its files come into `folder` when the block ends well, and not before.

    What else is in `folder` stays. When the block fails, `folder` is as it was.
    """
    folder = Path(folder).resolve()  # a link may lead to another disk, to which nothing can be renamed from here
    hidden = f".{folder.name}.{uuid.uuid4().hex[:8]}.tmp"
    temporary = folder / hidden if folder.exists() else folder.with_name(hidden)  # within: a mount is a disk of its own
    try:
        with disk_errors_explained(folder):
            temporary.mkdir(parents=True)
            yield temporary
            if not folder.exists():
                replace_file(temporary, folder)
                return
            for file in sorted(temporary.iterdir()):
                replace_file(file, folder / file.name)
    finally:
        _remove(temporary)


@contextmanager
def disk_errors_explained(target: Path, kept: str = "no file was left half-written") -> Iterator[None]:
    """Turn a disk or permission error into a `DfstransError` that says so, what to do, and what is kept."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "check the disk or choose another place")
        raise DfstransError(
            f"expected to write {target}, but the system refused: {error.strerror or error}; {remedy} ({kept})"
        ) from error


def replace_file(temporary: Path, target: Path) -> Path:
    """Give a finished file or folder its name, once its content is on disk; what stood there goes."""
    _flush(temporary)
    _move_into_place(temporary, target)
    return target


def _move_into_place(temporary: Path, target: Path) -> None:
    """Rename onto the target; an old folder there is set aside for the moment between two renames."""
    if not target.is_dir():
        temporary.replace(target)
    elif not temporary.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder of that name is in the way")
    else:
        retired = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.old")
        target.rename(retired)
        try:
            temporary.rename(target)
        except OSError:
            retired.rename(target)
            raise
        _remove(retired)
    _flush_names(target.parent)


def _flush(path: Path) -> None:
    """Make sure that the content is on disk before its name is."""
    for file in [path] if path.is_file() else [inner for inner in path.rglob("*") if inner.is_file()]:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


def _flush_names(folder: Path) -> None:
    """Make sure that a rename is on disk, too, where the system can tell."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
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
