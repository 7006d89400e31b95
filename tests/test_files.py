"""Files and folders appear completely or not at all."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from dfstrans.errors import DfstransError
from dfstrans.files import atomic_fill, atomic_write, explain_disk_errors


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with one file."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old.txt").write_text("old")
    return tmp_path / "model"


def assert_unchanged(model: Path) -> None:
    assert (model / "old.txt").read_text() == "old"
    assert [path.name for path in model.iterdir()] == ["old.txt"]
    assert list(model.parent.iterdir()) == [model]


def test_a_file_appears_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    for before, after in ((None, "first"), ("first", "second")):
        with atomic_write(target) as temporary:
            temporary.write_text(after)
            assert (target.read_text() if target.exists() else None) == before
        assert target.read_text() == after
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_replaces_a_folder(model: Path) -> None:
    with atomic_write(model) as temporary:
        temporary.mkdir()
        (temporary / "new.txt").write_text("new")
    assert [file.name for file in model.iterdir()] == ["new.txt"]
    assert list(model.parent.iterdir()) == [model]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("other")])
def test_a_failure_changes_nothing(model: Path, error: BaseException) -> None:
    def write() -> None:
        with atomic_write(model) as temporary:
            temporary.mkdir()
            (temporary / "half.txt").write_text("half")
            raise error

    with pytest.raises(DfstransError if isinstance(error, OSError) else type(error)):
        write()
    assert_unchanged(model)


def test_a_refused_rename_restores_the_old_folder(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refuse_new(path: Path, to: Path) -> Path:
        if path.suffix == ".tmp":
            raise OSError(5, "Input/output error")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", refuse_new)
    with pytest.raises(DfstransError, match="Input/output error"), atomic_write(model) as temporary:
        temporary.mkdir()
    assert_unchanged(model)


def test_a_file_does_not_replace_a_folder(model: Path) -> None:
    with pytest.raises(DfstransError, match="a folder of that name"), atomic_write(model) as temporary:
        temporary.write_text("table")
    assert_unchanged(model)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space or choose another place"),
        (errno.EACCES, "change the permissions"),
        (errno.EROFS, "choose a writable place"),
        (errno.EIO, "check the disk"),
    ],
)
def test_each_disk_error_has_its_own_remedy(tmp_path: Path, number: int, remedy: str) -> None:
    said = re.escape(os.strerror(number))
    with (
        pytest.raises(DfstransError, match=rf"{said}; {remedy}.*\(the old one is kept\)"),
        explain_disk_errors(tmp_path / "file", kept="the old one is kept"),
    ):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("name", "said"), [("x" * 300, "choose a shorter name"), ("blocked/file.txt", "a file is where a folder should be")]
)
def test_an_impossible_path_gives_one_clear_error(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    with pytest.raises(DfstransError, match=said), atomic_write(tmp_path / name) as temporary:
        temporary.write_text("x")


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_is_filled_in_one_step_and_keeps_its_other_files(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "figures"
    if there:
        folder.mkdir()
        (folder / "mine.txt").write_text("mine")
    with atomic_fill(folder) as temporary:
        (temporary / "a.txt").write_text("a")
        assert not (folder / "a.txt").exists()
    assert {path.name for path in folder.iterdir()} == {"a.txt", *(["mine.txt"] if there else [])}
    with pytest.raises(ZeroDivisionError), atomic_fill(folder) as temporary:
        (temporary / "b.txt").write_text(f"{1 / 0}")
    assert {path.name for path in folder.iterdir()} == {"a.txt", *(["mine.txt"] if there else [])}
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_on_another_disk_is_filled_from_that_disk(tmp_path: Path, there: bool) -> None:
    disk, link = tmp_path / "disk", tmp_path / "figures"
    disk.mkdir()
    link.symlink_to(disk / "figures")
    if there:
        (disk / "figures").mkdir()
    with atomic_fill(link) as temporary:
        assert temporary.parent == (disk / "figures" if there else disk)  # the folder itself may be a mount, too
        (temporary / "a.txt").write_text("a")
    assert link.is_symlink()
    assert [path.name for path in link.iterdir()] == ["a.txt"]
    assert [path.name for path in disk.iterdir()] == ["figures"]


def test_a_file_in_place_of_the_folder_is_refused_before_the_block(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text("mine")
    with (
        pytest.raises(DfstransError, match="a file is where a folder should be"),
        atomic_fill(tmp_path / "figures"),
    ):
        pytest.fail("the block started")
    assert (tmp_path / "figures").read_text() == "mine"
