"""Pictures of encodings, on a screen and for print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dfstrans.errors import DfstransError
from dfstrans.lab.paper.encoding_figures import (
    cosines,
    distribution_figure,
    image_figure,
    reconstruction_figure,
    similarity_figure,
    write_encodings,
    write_print_figures,
)
from dfstrans.lab.paper.encoding_study import EncodingStudy, study_encodings
from dfstrans.model.encoding import faithful_encoding


@pytest.fixture(scope="module")
def study() -> EncodingStudy:
    return study_encodings(segments=12, width=32, own=np.zeros((5, 3)))


def test_the_figures_hold_the_numbers_of_the_study(study: EncodingStudy) -> None:
    spectrum = distribution_figure(study.distributions)
    assert_allclose(spectrum.data[0].y, study.distributions["vanilla"])
    curves = reconstruction_figure(study.reconstructions, study.positions, study.segments)
    assert len(curves.data) == 2 * len(study.positions)
    assert_allclose(curves.data[0].y, study.reconstructions["vanilla"][0, :12])
    images = image_figure(study.encodings)
    assert [np.shape(image.z) for image in images.data] == [(12, 32), (12, 32), (5, 3)]
    alike = similarity_figure({name: check.gram for name, check in study.checks.items()})
    assert_allclose(alike.data[1].z, np.eye(12), atol=1e-12)


def test_codes_of_length_zero_resemble_none() -> None:
    assert_allclose(cosines(np.array([[4.0, 0.0], [0.0, 0.0]])), [[1, 0], [0, 0]])


def test_of_a_large_encoding_the_beginning_is_shown_and_said() -> None:
    codes = faithful_encoding(300, 600)
    figure = image_figure({"own": codes})
    assert np.shape(figure.data[0].z) == (256, 512)
    assert figure.layout.annotations[0].text == "own (300 positions, width 600, its beginning)"
    assert np.shape(similarity_figure({"own": codes @ codes.T}).data[0].z) == (256, 256)


def test_the_page_needs_nothing_from_outside_and_tells_the_verdicts(tmp_path: Path, study: EncodingStudy) -> None:
    text = write_encodings(tmp_path / "encodings.html", study).read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", text.split("<body>")[0][:2000])
    body = text.split("<body>")[1]
    assert "some positions share a code" in body
    assert "every position is equally far from every other" in body


def test_print_figures_are_the_same_files_for_the_same_numbers(tmp_path: Path, study: EncodingStudy) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    first, second = (write_print_figures(tmp_path / name, study) for name in ("a", "b"))
    assert {path.name for path in first} == {
        f"encoding_{name}.{suffix}"
        for name in ("distribution", "reconstruction", "images", "similarity")
        for suffix in ("pdf", "svg")
    }
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes().startswith(b"%PDF")
    assert b"<svg" in first[1].read_bytes()


def test_without_matplotlib_the_remedy_is_named(
    tmp_path: Path, study: EncodingStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DfstransError, match=r"pip install 'dfstrans\[paper\]'"):
        write_print_figures(tmp_path, study)
