from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Episodes
from dfstrans.diagnosis.scores import AttentionTrust
from dfstrans.errors import DfstransError
from dfstrans.report.figures import ANOMALOUS
from dfstrans.report.page import file_stem
from dfstrans.report.print_figures import (
    STYLE,
    FigureFolder,
    draw_attention,
    draw_moments,
    draw_relevance_beside_normal,
    draw_signals,
    draw_trust,
)
from dfstrans.report.views import between_sensors, chosen_moments, relevance_courses, trust_boxes
from tests.report.drawn import made_diagnosis
from tests.tiny import tiny_episodes

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
TRUST = AttentionTrust(
    np.array([1.0, 5.0]), np.arange(8.0).reshape(4, 2), -np.ones((4, 2)), np.arange(24.0).reshape(4, 2, 3)
)


@pytest.mark.slow
def test_folder_gets_the_figures_of_every_diagnosis(tmp_path: Path) -> None:
    episodes = tiny_episodes()[-4:]
    calm, anomalous = "calm", str(episodes.ids[0])
    tested: list[str] = []

    def measure(tried: Episodes) -> AttentionTrust:
        tested.extend(tried.ids)
        return replace(TRUST, top=TRUST.top[:1], bottom=TRUST.bottom[:1], random=TRUST.random[:1])

    folder = FigureFolder(tmp_path, measure)
    folder.add(*made_diagnosis(name=anomalous))
    folder.add(*made_diagnosis(name=calm, probability=0.1))
    folder.add_comparisons(episodes)
    assert tested == [anomalous]
    names = [
        f"{file_stem(one)}_{what}" for one in (anomalous, calm) for what in ("signals", "cells", "attention", "moments")
    ]
    names += ["temporal_relevance", "temporal_relevance_beside_normal", "attention_trust"]
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {f"{name}.{suffix}" for name in names for suffix in ("pdf", "svg")}
    assert all(content.startswith(b"%PDF") or b"<svg" in content for content in written.values())


def test_without_matplotlib_figures_are_refused_before_the_first_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DfstransError, match=r"pip install 'dfstrans\[paper\]'"):
        FigureFolder(tmp_path, lambda _: TRUST)


def test_print_shows_and_marks_the_same_numbers_as_the_screen() -> None:
    diagnosis, recording = made_diagnosis()
    first = draw_signals(diagnosis, recording).axes[0]
    np.testing.assert_array_equal(first.lines[1].get_ydata(), recording.episode.values[1])
    image = draw_moments(diagnosis).axes[0].images[0]
    np.testing.assert_allclose(image.get_array(), diagnosis.spatial_attention[next(iter(chosen_moments(diagnosis)))])
    _, matrix, _, bars = draw_attention(diagnosis).axes
    (dots,) = matrix.collections
    np.testing.assert_array_equal(dots.get_offsets(), [(place, place) for place in range(4)])
    (edges,) = bars.collections
    np.testing.assert_allclose(edges.get_offsets()[:, 1], between_sensors(diagnosis).relevance_edge)
    red = matplotlib.colors.to_rgba(ANOMALOUS)
    assert [bar.get_facecolor() == red for bar in bars.patches] == [False, False, True, True]


def test_anomalies_are_red_and_the_band_fits_the_most_common_length() -> None:
    usual, other = made_diagnosis(n_segments=6), made_diagnosis(n_segments=9, probability=0.1)
    courses = relevance_courses([other, usual, usual], "S1")
    (axes,) = draw_relevance_beside_normal(courses, "S1").axes
    *drawn, edge = axes.lines
    assert [line.get_color() == ANOMALOUS for line in drawn] == [False, True, True]
    np.testing.assert_array_equal(edge.get_xydata(), np.stack([courses[1].centre, courses[1].edge], axis=1))


def test_no_legend_is_cut_off_and_no_title_touches_the_next() -> None:
    diagnosis, recording = made_diagnosis(n_sensors=7, n_segments=120)
    deviation = np.ones((120, 7)) * np.r_[np.full(117, 2), 1, 3, 4][:, None]  # chooses the last three segments
    late = replace(diagnosis, segment_bounds=diagnosis.segment_bounds + 1000.25, deviation=deviation)
    with matplotlib.rc_context(STYLE):
        signals, moments = draw_signals(diagnosis, recording), draw_moments(late)
        for figure in (signals, moments):
            figure.draw_without_rendering()
    (legend,) = signals.legends
    assert len(legend.get_texts()) == 5
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= signals.bbox.width
    titles = [axes.title.get_window_extent() for axes in moments.axes[:3]]
    assert titles[0].x1 + 5 < titles[1].x0
    assert titles[1].x1 + 5 < titles[2].x0
    assert titles[2].x1 <= moments.bbox.width


def test_trust_has_a_panel_for_each_kind_of_fault() -> None:
    boxes = trust_boxes(TRUST, ["bump", "bump", "lubrication", "bump"])
    figure = draw_trust({f"kind {number}": boxes["bump"] for number in range(28)}, TRUST.percentages)
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes]
    assert titles[25:] == ["(z) kind 25", "(aa) kind 26", "(ab) kind 27"]


def test_trust_of_one_episode_is_drawn_as_dots() -> None:
    single = {"bump": {which: np.array([[1.0, 2.0]]) for which in ("top", "random", "bottom")}}
    (axes,) = draw_trust(single, np.array([1.0, 5.0])).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert len({line.get_color() for line in dots}) == 3
    assert all(line.get_ydata().tolist() == [1.0, 2.0] for line in dots)
