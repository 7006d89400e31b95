"""The comparison of encodings: numbers, reading of files, figures and the command."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from dfstrans.cli.app import app
from dfstrans.errors import DfstransError, settings_as_options
from dfstrans.lab.paper.encodings import (
    EncodingStudy,
    cosines,
    draw_distribution,
    draw_images,
    draw_reconstruction,
    draw_similarity,
    read_encoding,
    study_encodings,
    write_encodings,
)
from dfstrans.model.encoding import faithful_encoding, vanilla_encoding


@pytest.fixture(scope="module")
def paper() -> EncodingStudy:
    return study_encodings()


@pytest.fixture(scope="module")
def small() -> EncodingStudy:
    return study_encodings(segments=12, width=32, own=np.zeros((5, 3)))


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_default_sizes_are_those_of_the_paper(paper: EncodingStudy) -> None:
    assert (paper.segments, paper.spectrum_width, paper.positions) == (80, 256, (5, 40, 75))
    assert {name: codes.shape for name, codes in paper.encodings.items()} == dict.fromkeys(
        ("vanilla", "faithful"), (80, 240)
    )


def test_only_the_faithful_encoding_recovers_positions(paper: EncodingStudy) -> None:
    assert max(blur.error for blur in paper.blurs["faithful"]) < 1e-10
    assert min(blur.error for blur in paper.blurs["vanilla"]) > 0.6
    verdicts = {name: check.verdict for name, check in paper.checks.items()}
    assert verdicts == {"vanilla": "blurred", "faithful": "faithful"}


def test_numbers_are_strict_json(paper: EncodingStudy) -> None:
    spectrum = json.loads(json.dumps(paper.to_dict(), allow_nan=False))["spectrum"]
    assert (round(spectrum["lowest_bin_crossing"]), spectrum["lowest_bin_entries"]) == (103, 152)
    assert len(spectrum["distributions"]["vanilla"]) == 129


def test_document_has_these_numbers(paper: EncodingStudy) -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "analyse-encodings.md").read_text(encoding="utf-8")
    blur, check = paper.blurs["vanilla"][1], paper.checks["vanilla"]
    kept = f"{blur.height:.3f} | {100 * blur.kept:.1f} % | {blur.reach} | {blur.error:.2f} |"
    distances = re.escape(f"{check.smallest_distance:.2f} / {check.largest_distance:.1f} |")
    assert f"| vanilla | {kept}" in text
    assert re.search(rf"\| vanilla \| blurred \| infinite \| .* \| {check.directions:.1f} \| {distances}", text)
    assert f"**{paper.lowest_bin_entries} of its {paper.spectrum_width} entries**" in text


@pytest.mark.parametrize(
    ("segments", "positions"), [(2, (0, 1)), (3, (0, 1, 2)), (16, (1, 8, 15)), (160, (10, 80, 150))]
)
def test_positions_are_near_both_ends_and_in_the_middle(segments: int, positions: tuple[int, ...]) -> None:
    assert study_encodings(segments=segments, width=160).positions == positions


@pytest.mark.parametrize(
    ("segments", "width", "said"),
    [
        (80, 7, r"expected --width to be an even number from 2 to 4096 \(.*\), got 7; take 8"),
        (80, 0, "got 0; take 2"),
        (80, 5000, "got 5000; take 4096"),
        (1, 8, "expected --segments to be at least 2, got 1"),
        (9, 8, "at most 8 segments for an encoding of width 8, got 9: .* fewer --segments or a larger --width"),
        (241, None, "at most 240 segments"),
    ],
)
def test_impossible_sizes_are_refused(segments: int, width: int | None, said: str) -> None:
    with settings_as_options(), pytest.raises(DfstransError, match=said):
        study_encodings(segments=segments, width=width)


# ---- files ----------------------------------------------------------------------------------------------------------

CODES = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])


@pytest.mark.parametrize(
    "text",
    [
        "0.5,-1,2\n1.5,0.25,-3\n",
        "\ufeffa,b,c\r\n0.5,-1,2\r\n1.5,0.25,-3\r\n",
        "0.5;-1;2\n1.5;0.25;-3",
        "# saved by numpy\n0.5 -1 2\n\n1.5 0.25 -3\n",
        "0.5\t-1\t2\n1.5\t0.25\t-3\n",
    ],
)
def test_table_of_numbers_is_read_with_or_without_a_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.csv").write_text(text, encoding="utf-8")
    assert_array_equal(read_encoding(tmp_path / "own.csv"), CODES)


def test_numpy_file_holds_one_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", CODES.astype(np.float32))
    assert_array_equal(read_encoding(tmp_path / "own.npy"), CODES)
    np.save(tmp_path / "batch.npy", CODES[None])
    with (tmp_path / "archive.npy").open("wb") as file:
        np.savez(file, a=CODES)
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    for name, said in (
        ("batch", "without a batch axis"),
        ("archive", "an archive of several"),
        ("objects", "something else"),
        ("missing", r"missing\.npy, got nothing there; check the path"),
    ):
        with pytest.raises(DfstransError, match=said):
            read_encoding(tmp_path / f"{name}.npy")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("own.csv", b"", "got an empty file"),
        ("own.csv", b"a,b\n", "got no row of numbers"),
        ("own.csv", b"# nothing\n", "got no row of numbers"),
        ("own.csv", b"1,2\n3\n", r"a matrix with one row per position in .*own\.csv"),
        ("own.csv", b"1,2\n3,x\n", "could not convert string 'x'"),
        ("own.csv", b"\xff\xfe\x00", "is damaged or is something else"),
        ("own.csv", b"1,2\nnan,3\n", "finite numbers, got 1 .* position 1, column 0"),
        ("own.csv", b"1,2\n", r"at least 2 positions and 1 column, got shape \(1, 2\)"),
        ("own.npy", b"no numpy", "is damaged or is something else"),
        ("own.pt", b"PK", r"in \.npy or \.csv, got own\.pt; save it with numpy\.save"),
    ],
)
def test_file_without_an_encoding_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DfstransError, match=said):
        read_encoding(tmp_path / name)


# ---- figures --------------------------------------------------------------------------------------------------------


def test_figures_show_the_numbers_of_the_study(small: EncodingStudy) -> None:
    vanilla, _ = draw_distribution(small.distributions).axes[0].lines
    assert_allclose(vanilla.get_ydata(), small.distributions["vanilla"])
    first, _ = draw_reconstruction(small.reconstructions, small.positions, small.segments).axes
    _, curve, *others = first.lines  # each after the dotted line of its position
    assert len(others) == 2 * len(small.positions) - 2
    assert_allclose(curve.get_ydata(), small.reconstructions["vanilla"][0, :12])
    images = [axes.images[0].get_array() for axes in draw_images(small.encodings).axes if axes.images]
    assert [image.shape for image in images] == [(12, 32), (12, 32), (5, 3)]
    alike = draw_similarity({name: check.gram for name, check in small.checks.items()})
    assert_allclose(alike.axes[1].images[0].get_array(), np.eye(12), atol=1e-12)


def test_codes_of_length_zero_resemble_none() -> None:
    assert_allclose(cosines(np.array([[4.0, 0.0], [0.0, 0.0]])), [[1, 0], [0, 0]])


def test_large_encoding_shows_its_beginning() -> None:
    codes = faithful_encoding(300, 600)
    axes = draw_images({"own": codes}).axes[0]
    assert axes.images[0].get_array().shape == (256, 512)
    assert axes.get_title() == "own (300 positions, width 600, its beginning)"
    assert draw_similarity({"own": codes @ codes.T}).axes[0].images[0].get_array().shape == (256, 256)


def test_page_and_figures_are_self_contained_and_reproducible(tmp_path: Path, small: EncodingStudy) -> None:
    first, second = (write_encodings(tmp_path / name, small) for name in ("a", "b"))
    names = ("distribution", "reconstruction", "images", "similarity")
    figures = [f"encoding_{name}.{suffix}" for name in names for suffix in ("pdf", "svg")]
    assert [path.name for path in first] == ["encodings.html", *figures]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[1].read_bytes().startswith(b"%PDF")
    text = first[0].read_text(encoding="utf-8")
    assert text.count("<svg") == 4
    assert not re.search(r"<(?:script|link|img|image)[^>]+(?:src|href)=\"(?!data:|#)", text)
    assert "some positions share a code" in text
    assert "all positions are equally far apart" in text


def test_without_matplotlib_the_remedy_is_named(
    tmp_path: Path, small: EncodingStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DfstransError, match=r"pip install 'dfstrans\[paper\]'"):
        write_encodings(tmp_path / "out", small)
    assert not (tmp_path / "out").exists()


# ---- the command ----------------------------------------------------------------------------------------------------

SMALL = ["--segments", "8", "--width", "16"]


def run(*arguments: str, exit_code: int = 0) -> str:
    with settings_as_options():
        result = CliRunner().invoke(app, ["encoding", *arguments], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def test_command_prints_the_numbers_of_the_paper() -> None:
    said = run()
    assert "152 of 256 entries are slower than 2π/256: those from l = 103.0 on" in said
    assert "height 0.340 of 1" in said
    assert "vanilla: every position has its own code, but" in said
    assert "faithful: all positions are equally far apart" in said


def test_command_lists_the_written_figures(tmp_path: Path) -> None:
    content = json.loads(run(*SMALL, "--out", str(tmp_path / "figures"), "--json"))
    assert str(tmp_path / "figures" / "encodings.html") in content["written"]
    assert all(Path(path).exists() for path in content["written"])
    assert content["encodings"]["faithful"]["condition_number"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("codes", "verdict", "exit_code"),
    [
        (faithful_encoding(6, 8), "faithful", 0),
        (vanilla_encoding(80, 240), "blurred", 1),
        (np.ones((4, 3)), "ambiguous", 1),
    ],
)
def test_exit_code_is_the_verdict_on_the_user_s_encoding(
    tmp_path: Path, codes: np.ndarray, verdict: str, exit_code: int
) -> None:
    np.savetxt(tmp_path / "own.csv", codes, delimiter=",")
    said = run(*SMALL, "--file", str(tmp_path / "own.csv"), "--json", exit_code=exit_code)
    assert json.loads(said)["encodings"]["own"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--segments", "300"], "fewer --segments or a larger --width"), (["--file", "model.pt"], r"\.npy or \.csv")],
)
def test_impossible_request_writes_nothing(tmp_path: Path, wrong: list[str], said: str) -> None:
    with pytest.raises(DfstransError, match=said):
        run(*wrong, "--out", str(tmp_path / "figures"))
    assert not (tmp_path / "figures").exists()
