from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dfstrans import DfstransError
from dfstrans.cli import encoding as cli_encoding
from dfstrans.cli.app import app
from dfstrans.errors import settings_as_options
from dfstrans.model.encoding import faithful_encoding, vanilla_encoding

SMALL = ["--segments", "8", "--width", "16"]


def run(*arguments: str, exit_code: int = 0) -> str:
    with settings_as_options():
        result = CliRunner().invoke(app, ["encoding", *arguments], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def test_the_numbers_of_the_paper_are_printed() -> None:
    said = run()
    assert "152 of 256 entries are slower than 2π/256: those from l = 103.0 on" in said
    assert "height 0.340 of 1" in said
    assert "vanilla: every position has a code of its own, but" in said
    assert "faithful: every position is equally far from every other" in said


def test_figures_are_written_and_named(tmp_path: Path) -> None:
    content = json.loads(run(*SMALL, "--out", str(tmp_path / "figures"), "--json"))
    assert str(tmp_path / "figures" / "encodings.html") in content["written"]
    assert all(Path(path).exists() for path in content["written"])
    assert content["encodings"]["faithful"]["condition_number"] == pytest.approx(1)


def test_without_matplotlib_the_page_is_written_and_the_rest_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_encoding, "find_spec", lambda _: None)
    result = CliRunner().invoke(app, ["encoding", *SMALL, "--out", str(tmp_path)])
    assert "pip install 'dfstrans[paper]'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["encodings.html"]


@pytest.mark.parametrize(
    ("codes", "verdict", "exit_code"),
    [
        (faithful_encoding(6, 8), "faithful", 0),
        (vanilla_encoding(80, 240), "blurred", 1),
        (np.ones((4, 3)), "ambiguous", 1),
    ],
)
def test_the_exit_code_tells_whether_one_s_own_encoding_is_faithful(
    tmp_path: Path, codes: np.ndarray, verdict: str, exit_code: int
) -> None:
    np.savetxt(tmp_path / "own.csv", codes, delimiter=",")
    said = run(*SMALL, "--file", str(tmp_path / "own.csv"), "--json", exit_code=exit_code)
    assert json.loads(said)["encodings"]["own"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--width", "7"], "expected --width to be an even number"),
        (["--segments", "300"], "fewer --segments or a larger --width"),
        (["--segments", "0"], "--segments to be at least 2, got 0"),
        (["--file", "missing.npy"], r"missing\.npy, got nothing there"),
        (["--file", "model.pt"], r"\.npy or \.csv, got model\.pt"),
    ],
)
def test_an_impossible_request_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: list[str], said: str
) -> None:
    with pytest.raises(DfstransError, match=said):
        run(*wrong, "--out", str(tmp_path / "figures"))
    assert not (tmp_path / "figures").exists()
