"""Progress where there is no terminal: a line every ten per cent, once it takes long enough to wonder."""

from __future__ import annotations

import pytest

from dfstrans import cli_output
from dfstrans.cli_output import print_columns, progress


def test_long_work_says_every_ten_per_cent_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_output, "QUIET_SECONDS", -1.0)
    with progress("simulating", 40) as advance:
        for n in (1, 2, 1, 16, 20):
            advance(n)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "simulating: 10 % (4 of 40)",
        "simulating: 50 % (20 of 40)",
        "simulating: 100 % (40 of 40)",
    ]


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("checking", 3) as advance:
        advance(3)
    assert capsys.readouterr().err == ""


def test_columns_are_as_wide_as_what_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(("model", "F1"), [("boosting", "0.5"), ("a" * 150, "0.25")], words=("model",))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["model" + " " * 149 + "F1", "boosting" + " " * 145 + "0.5", "a" * 150 + "  0.25"]
