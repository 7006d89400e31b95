"""Progress where there is no terminal: a line every ten per cent, once it takes long enough to wonder."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from rich.text import Text

from dfstrans.cli import output as cli_output
from dfstrans.cli.output import print_columns, progress


def test_long_work_reports_progress_every_ten_per_cent_and_every_30_s(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 5.0, 35.0, 36.0, 50.0, 80.0))
    monkeypatch.setattr(cli_output, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress("simulating", 40) as advance:
        for n in (1, 2, 3, 14, 20):
            advance(n)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "simulating: 7 % (3 of 40), 5.14 per minute, about 7 min 12 s left",
        "simulating: 15 % (6 of 40), 10 per minute, about 3 min 24 s left",
        "simulating: 50 % (20 of 40), 24 per minute, about 50 s left",
        "simulating: 100 % (40 of 40), 30 per minute",
    ]


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("checking", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_columns_are_as_wide_as_what_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("model", "F1"), [("boosting", "0.5"), ("a" * 150, "0.25")], words=("model",))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["model" + " " * 149 + "F1", "boosting" + " " * 145 + "0.5", "a" * 150 + "  0.25"]


def test_wide_tables_are_not_truncated_and_brackets_are_literal(capsys: pytest.CaptureFixture[str]) -> None:
    cells = ("speed [m/s] :warning: [/b]", "b" * 300, "0.5")
    print_columns(("model [x]", "note", "F1"), [cells], words=("model [x]", "note"))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["model [x]".ljust(28) + "note".ljust(303) + "F1", "  ".join(cells)]


def test_wide_table_wraps_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "28")
    titles, row = ("of", "model", "P", "R", "F1"), ("a", "tapnet", "0.111", "0.222", "0.333")
    print_columns(titles, [row], words=("of", "model"))
    lines = [Text.from_ansi(line).plain.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [[*titles[:4]], [*row[:4]], [], ["of", "model", "F1"], ["a", "tapnet", "0.333"]]
