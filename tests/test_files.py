"""Files and folders appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from dfstrans.errors import DfstransError
from dfstrans.files import disk_errors_explained, filled_at_once, written_atomically


def test_a_file_appears_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    with written_atomically(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with written_atomically(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_a_folder_replaces_a_folder(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old.txt").write_text("old")
    with written_atomically(target) as temporary:
        temporary.mkdir()
        (temporary / "new.txt").write_text("new")
    assert [file.name for file in target.iterdir()] == ["new.txt"]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("other")])
def test_a_failure_leaves_what_stood_there_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old.txt").write_text("old")
    expected = DfstransError if isinstance(error, OSError) else type(error)

    def write() -> None:
        with written_atomically(target) as temporary:
            temporary.mkdir()
            (temporary / "half.txt").write_text("half")
            raise error

    with pytest.raises(expected):
        write()
    assert (target / "old.txt").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_refused_rename_puts_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old.txt").write_text("old")
    rename = Path.rename

    def refuse_new(path: Path, to: Path) -> Path:
        if path.suffix == ".tmp":
            raise OSError(5, "Input/output error")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", refuse_new)
    with pytest.raises(DfstransError, match="Input/output error"), written_atomically(target) as temporary:
        temporary.mkdir()
    assert [file.name for file in target.iterdir()] == ["old.txt"]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space or choose another place"),
        (errno.EACCES, "change the permissions"),
        (errno.EROFS, "choose a place that can be written to"),
        (errno.EIO, "check the disk"),
    ],
)
def test_each_refusal_has_its_own_remedy(tmp_path: Path, number: int, remedy: str) -> None:
    said = re.escape(os.strerror(number))
    with pytest.raises(DfstransError, match=rf"{said}; {remedy}.*\(the old one is kept\)"):
        _refuse(tmp_path / "file", number)


def _refuse(target: Path, number: int) -> None:
    with disk_errors_explained(target, kept="the old one is kept"):
        raise OSError(number, os.strerror(number))


def test_a_name_that_is_too_long_is_to_be_shortened(tmp_path: Path) -> None:
    with (
        pytest.raises(DfstransError, match="choose a shorter name"),
        written_atomically(tmp_path / ("x" * 300)) as temporary,
    ):
        temporary.write_text("x")


def test_a_folder_that_cannot_be_made_gives_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    with (
        pytest.raises(DfstransError, match=r"the system refused: .*; choose another place: a file is where a folder"),
        written_atomically(tmp_path / "blocked" / "file.txt") as temporary,
    ):
        temporary.write_text("x")


def test_a_file_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "precious").write_text("work")
    with (
        pytest.raises(DfstransError, match="a folder of that name is in the way"),
        written_atomically(tmp_path / "results") as temporary,
    ):
        temporary.write_text("table")
    assert (tmp_path / "results" / "precious").read_text() == "work"
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_is_filled_at_the_end_and_keeps_what_it_had(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "figures"
    if there:
        folder.mkdir()
        (folder / "mine.txt").write_text("mine")
    with filled_at_once(folder) as temporary:
        (temporary / "a.txt").write_text("a")
        assert not (folder / "a.txt").exists()
    assert {path.name for path in folder.iterdir()} == {"a.txt", *(["mine.txt"] if there else [])}
    with pytest.raises(ZeroDivisionError), filled_at_once(folder) as temporary:
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
    with filled_at_once(link) as temporary:
        assert temporary.parent == (disk / "figures" if there else disk)  # the folder itself may be a mount, too
        (temporary / "a.txt").write_text("a")
    assert link.is_symlink()
    assert [path.name for path in link.iterdir()] == ["a.txt"]
    assert [path.name for path in disk.iterdir()] == ["figures"]


def test_a_file_in_place_of_the_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text("mine")
    with (
        pytest.raises(DfstransError, match="a file is where a folder should be"),
        filled_at_once(tmp_path / "figures"),
    ):
        pytest.fail("the work began")
    assert (tmp_path / "figures").read_text() == "mine"
