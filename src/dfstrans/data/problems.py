"""Problems of recordings: readers report them and go on, so that a user sees all of them at once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dfstrans.errors import DfstransError, counted, list_few

MOST_LISTED = 5  # skipped files in a warning; more are counted by reason


@dataclass(frozen=True)
class Problem:
    """What was expected and what was found, how often, one example, and the option that resolves it.

    Problems with the same `kind` are shown as one. `error` is the exception that the problem was, if it was one.
    """

    message: str
    level: Literal["error", "warning"] = "error"
    count: int = 1
    file: Path | None = None
    line: int | None = None
    option: str = ""
    kind: str = ""
    files: int = 1
    error: DfstransError | None = None

    def __str__(self) -> str:
        others = f" (also in {counted(self.files - 1, 'more file')})" if self.files > 1 else ""
        return self.message + others + (f"; or use {self.option}" if self.option else "")

    @property
    def merge_key(self) -> str:
        """What is the same for the same problem of different files: all but their names, the episodes and numbers."""
        if self.kind or self.file is None:
            return self.kind or self.message
        stem = Path(self.file.name.removesuffix(".gz")).stem
        message = re.sub(rf"[^\s'\"]*(?<!\w){re.escape(stem)}(?!\w)", "", self.message.replace(str(self.file), ""))
        return re.sub(r"(?<!\w)\d[\w.,:+-]*", "", message)


class NoRecordingsError(DfstransError):
    """Nothing is left to read after the problems that were reported."""


class Problems:
    """The problems that were reported while recordings were read, and the files that were skipped for theirs."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self.skipped: dict[Path, tuple[Problem, ...]] = {}

    def add(self, problem: Problem) -> None:
        """Add a problem."""
        self._found.append(problem)

    def bad_files(self) -> set[Path]:
        """Return the files with an error."""
        return {one.file for one in self._found if one.level == "error" and one.file is not None}

    def skip(self, files: Iterable[Path]) -> None:
        """Turn the errors of these files into reasons for skipping them."""
        for file in files:
            self.skipped[file] = tuple(one for one in self._found if one.file == file and one.level == "error")
            self._found = [one for one in self._found if one.file != file]

    def merged(self) -> list[Problem]:
        """Return the problems, those of the same kind as one, errors first."""
        alike: dict[tuple[str, str], Problem] = {}
        for one in self._found:
            first = alike.get((one.level, one.merge_key))
            alike[one.level, one.merge_key] = (
                one
                if first is None
                else replace(first, count=first.count + one.count, files=first.files + (first.file != one.file))
            )
        return sorted(alike.values(), key=lambda one: one.level)

    def settle(self, source: Path) -> None:
        """Warn about what is only suspicious and about skipped files; raise one error with all others."""
        found = self.merged()
        for one in found:
            if one.level == "warning":
                warnings.warn(str(one), stacklevel=3)
        errors = [one for one in found if one.level == "error"]
        if self.skipped and not errors:
            warnings.warn(self.describe_skipped(), stacklevel=3)
        if len(errors) == 1 and errors[0].error is not None and not errors[0].option:
            raise errors[0].error
        if len(errors) == 1:
            raise DfstransError(str(errors[0])) from errors[0].error
        if errors:
            listed = "".join(f"\n  - {one}" for one in errors)
            raise DfstransError(f"expected readable recordings in {source}, got {len(errors)} problems:{listed}")

    def describe_skipped(self, most: int = MOST_LISTED) -> str:
        """Return a table of the skipped files and the reasons; of more than `most`, one row per reason."""
        if len(self.skipped) <= most:
            rows = [f"{file.name}: {'; '.join(one.message for one in of)}" for file, of in self.skipped.items()]
        else:
            files: dict[str, list[Path]] = {}
            example: dict[str, Problem] = {}
            for file, problems in self.skipped.items():
                for problem in problems:
                    files.setdefault(problem.merge_key, []).append(file)
                    example.setdefault(problem.merge_key, problem)
            rows = [
                f"{counted(len(of), 'file')} ({list_few((file.name for file in of), 3)}): {example[key].message}"
                for key, of in sorted(files.items(), key=lambda one: -len(one[1]))
            ]
            rows.append("`dfstrans data check` with the same options lists each file")
        return f"skipped {counted(len(self.skipped), 'file')}:" + "".join(f"\n  {row}" for row in rows)


_current: ContextVar[Problems | None] = ContextVar("problems", default=None)


@contextmanager
def collecting() -> Iterator[Problems]:
    """Collect the problems that are reported in the block."""
    problems = Problems()
    token = _current.set(problems)
    try:
        yield problems
    finally:
        _current.reset(token)


def current_problems() -> Problems:
    """Return the problems that were collected so far; empty if nothing collects them."""
    return _current.get() or Problems()


def report(problem: Problem) -> None:
    """Report a problem and go on; if nothing collects it, raise or warn instead."""
    problems = _current.get()
    if problems is not None:
        problems.add(problem)
    elif problem.level == "error":
        raise problem.error or DfstransError(str(problem))
    else:
        warnings.warn(str(problem), stacklevel=2)


@contextmanager
def reporting(file: Path | None = None, option: str = "") -> Iterator[None]:
    """Report an error of the block as a problem (of `file`, if given) and leave the block."""
    try:
        yield
    except NoRecordingsError:
        pass
    except DfstransError as error:
        report(Problem(str(error), file=file, option=option, error=error))
