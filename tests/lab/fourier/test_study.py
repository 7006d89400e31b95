"""The comparison of encodings as a whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dfstrans.errors import DfstransError, settings_as_options
from dfstrans.lab.paper.encoding_study import EncodingStudy, study_encodings


@pytest.fixture(scope="module")
def study() -> EncodingStudy:
    return study_encodings()


def test_the_paper_s_sizes_are_the_default(study: EncodingStudy) -> None:
    assert (study.segments, study.spectrum_width, study.positions) == (80, 256, (5, 40, 75))
    assert {name: encoding.shape for name, encoding in study.encodings.items()} == {
        "vanilla": (80, 240),
        "faithful": (80, 240),
    }


def test_only_the_faithful_encoding_gives_positions_back(study: EncodingStudy) -> None:
    assert max(blur.error for blur in study.blurs["faithful"]) < 1e-10
    assert min(blur.error for blur in study.blurs["vanilla"]) > 0.6
    assert {name: check.verdict for name, check in study.checks.items()} == {
        "vanilla": "blurred",
        "faithful": "faithful",
    }


def test_its_numbers_are_strict_json(study: EncodingStudy) -> None:
    content = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert round(content["spectrum"]["lowest_bin_crossing"]) == 103
    assert content["spectrum"]["lowest_bin_entries"] == 152
    assert len(content["spectrum"]["distributions"]["vanilla"]) == 129


def test_the_document_tells_these_numbers(study: EncodingStudy) -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "analyse-encodings.md").read_text(encoding="utf-8")
    blur, check = study.blurs["vanilla"][1], study.checks["vanilla"]
    kept = f"{blur.height:.3f} | {100 * blur.kept:.1f} % | {blur.reach} | {blur.error:.2f} |"
    distances = f"{check.smallest_distance:.2f} / {check.largest_distance:.1f} |"
    assert f"| vanilla | {kept}" in text
    assert re.search(
        rf"\| vanilla \| blurred \| infinite \| .* \| {check.directions:.1f} \| {re.escape(distances)}", text
    )
    assert f"**{study.lowest_bin_entries} of its {study.spectrum_width} entries**" in text


def test_one_s_own_encoding_is_checked_beside_them() -> None:
    study = study_encodings(segments=4, width=8, own=np.ones((3, 5)))
    assert study.encodings["own"].shape == (3, 5)
    assert study.checks["own"].verdict == "ambiguous"


@pytest.mark.parametrize(
    ("segments", "positions"), [(2, (0, 1)), (3, (0, 1, 2)), (16, (1, 8, 15)), (160, (10, 80, 150))]
)
def test_positions_lie_near_both_ends_and_in_the_middle(segments: int, positions: tuple[int, ...]) -> None:
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
def test_sizes_that_no_encoding_has_are_refused(segments: int, width: int | None, said: str) -> None:
    with settings_as_options(), pytest.raises(DfstransError, match=said):
        study_encodings(segments=segments, width=width)
