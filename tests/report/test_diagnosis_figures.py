"""The figures of a diagnosis: on a screen and, from the same numbers, for print."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dfstrans.diagnosis.trust import AttentionTrust
from dfstrans.errors import DfstransError
from dfstrans.report.diagnosis_figures import (
    MARKED,
    attention_figure,
    cells_figure,
    lanes_figure,
    moment_figures,
    relevance_beside_normal_figure,
    relevance_figure,
    signals_figure,
    trust_figure,
)
from dfstrans.report.figures import ANOMALOUS, NORMAL
from dfstrans.report.views import between_moments, between_sensors, relevance_courses, shaded, trust_boxes
from tests.report.drawn import made_diagnosis

TRUST = AttentionTrust(
    np.array([1.0, 5.0]), np.arange(8.0).reshape(4, 2), -np.ones((4, 2)), np.arange(24.0).reshape(4, 2, 3)
)
KINDS = ["bump", "bump", "lubrication", "bump"]


def test_the_moments_that_matter_are_shaded_in_every_row() -> None:
    diagnosis, recording = made_diagnosis()
    figure = signals_figure(diagnosis, recording)
    marked = [shape for shape in figure.layout.shapes if shape.fillcolor == MARKED]
    assert {(shape.x0, shape.x1) for shape in marked} == set(shaded(diagnosis))
    assert len(marked) == 5 * len(shaded(diagnosis))  # four sensors and the ranking
    assert figure.layout.annotations[0].text == "S1"


def test_the_bars_are_what_the_moments_are_ranked_by() -> None:
    diagnosis, recording = made_diagnosis()
    (bars,) = (trace for trace in signals_figure(diagnosis, recording).data if trace.type == "bar")
    np.testing.assert_allclose(bars.y, diagnosis.segment_deviation)
    assert bars.marker.color[3] == ANOMALOUS
    occlusion = np.random.default_rng(0).random((6, 4))
    other = replace(diagnosis, occlusion=occlusion)
    (bars,) = (trace for trace in signals_figure(other, recording).data if trace.type == "bar")
    np.testing.assert_allclose(bars.y, occlusion.max(axis=1))
    np.testing.assert_allclose(cells_figure(other, recording).data[0].z, occlusion.T, rtol=1e-6)


def test_cells_and_lanes_show_every_sensor() -> None:
    diagnosis, recording = made_diagnosis()
    np.testing.assert_allclose(cells_figure(diagnosis, recording).data[0].customdata, diagnosis.deviation.T, rtol=1e-6)
    lanes = lanes_figure(diagnosis, recording)
    assert [trace.name for trace in lanes.data] == list(diagnosis.sensors)
    assert lanes.layout.yaxis.ticktext == (*diagnosis.sensors, "known truth")
    assert lanes.layout.xaxis.title.text == "time in s"


def test_below_an_attention_matrix_stand_its_column_sums() -> None:
    diagnosis, _ = made_diagnosis()
    matrix, dots, bars, edges = attention_figure(between_sensors(diagnosis), diagnosis.sensors, "sensor").data
    np.testing.assert_allclose(np.sum(matrix.z, axis=0), bars.y, rtol=1e-6)
    assert list(zip(dots.x, dots.y, strict=True)) == [(name, name) for name in diagnosis.sensors]  # above their band
    assert [colour == ANOMALOUS for colour in bars.marker.color] == [False, False, True, True]
    np.testing.assert_allclose(edges.y, bars.y - 0.1 * (np.linspace(0.5, 1.5, 4) - 1))
    (at_two,) = moment_figures(diagnosis, [2]).values()
    np.testing.assert_allclose(at_two.data[0].z, diagnosis.spatial_attention[2], rtol=1e-6)


def test_in_print_the_same_weights_and_bars_are_marked() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    diagnosis, _ = made_diagnosis()
    from matplotlib.colors import to_rgba

    from dfstrans.report.diagnosis_print import print_attention

    view = between_sensors(diagnosis)
    _, matrix, _, bars = print_attention(diagnosis).axes
    (dots,) = matrix.collections
    np.testing.assert_array_equal(dots.get_offsets(), [(place, place) for place in range(4)])
    (edges,) = bars.collections
    np.testing.assert_allclose(edges.get_offsets()[:, 1], view.relevance_edge)
    red = to_rgba(ANOMALOUS)
    assert [bar.get_facecolor() == red for bar in bars.patches] == [False, False, True, True]


def test_attention_of_a_model_without_its_bands_is_drawn_without_marks() -> None:
    diagnosis, recording = made_diagnosis()
    names = ("global_spatial_relevance", "global_temporal_relevance", "spatial_attention")
    known = {name: diagnosis.bands[name] for name in names}
    older = replace(diagnosis, bands=known)
    _, dots, bars, edges = attention_figure(between_moments(older), None, "segment").data
    assert len(dots.x) == 0
    assert [colour == ANOMALOUS for colour in bars.marker.color] == [False, False, True, True, False, False]
    _, dots, bars, edges = attention_figure(between_sensors(older, 3), older.sensors, "sensor").data
    assert (list(dots.x), list(dots.y)) == ([older.sensors[1]], [older.sensors[0]])
    assert np.isnan(edges.y).all()
    assert set(bars.marker.color) == {NORMAL}
    assert np.isnan(relevance_courses([(older, recording)], "S1")[0].edge).all()


def test_relevance_of_anomalous_episodes_is_red_and_of_others_is_not() -> None:
    courses = relevance_courses([made_diagnosis(), made_diagnosis(probability=0.1, name="calm")], "S1")
    over = relevance_figure(courses, "S1").data
    assert [trace.line.color == ANOMALOUS for trace in over] == [False, True, False, False, False, False]
    beside = relevance_beside_normal_figure(courses, "S1").data
    assert [trace.line.color == ANOMALOUS for trace in beside] == [True, False, False]


def test_trust_has_a_panel_per_kind_and_a_box_per_control() -> None:
    figure = trust_figure(trust_boxes(TRUST, KINDS), TRUST.percentages)
    assert [(box.name, box.xaxis) for box in figure.data] == [
        (which, axis) for axis in ("x", "x2") for which in ("top", "random", "bottom")
    ]
    first = figure.data[0]
    assert dict(zip(first.x.tolist(), first.y.tolist(), strict=True)) == {"1 %": 6.0, "5 %": 7.0}  # of the last bump


def test_every_figure_of_the_paper_is_there_for_print(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.report.diagnosis_print import (
        print_relevance,
        print_relevance_beside_normal,
        print_trust,
        write_diagnosis_figures,
        write_figures,
    )

    diagnosis, recording = made_diagnosis()
    written = write_diagnosis_figures(tmp_path, "run", diagnosis, recording)
    courses = relevance_courses([(diagnosis, recording), made_diagnosis(probability=0.1)], "S1")
    written += write_figures(
        tmp_path,
        {
            "relevance": lambda: print_relevance(courses, "S1"),
            "beside": lambda: print_relevance_beside_normal(courses, "S1"),
            "trust": lambda: print_trust(trust_boxes(TRUST, KINDS), TRUST.percentages),
        },
    )
    names = ("run_signals", "run_cells", "run_attention", "run_moments", "relevance", "beside", "trust")
    assert [path.name for path in written] == [f"{name}.{suffix}" for name in names for suffix in ("pdf", "svg")]
    assert all(path.read_bytes().startswith(b"%PDF") for path in written[::2])
    assert all(b"<svg" in path.read_bytes() for path in written[1::2])


def test_trust_for_print_fills_a_panel_for_each_kind_however_many_there_are() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.report.diagnosis_print import print_trust

    (one, *_) = trust_boxes(TRUST, KINDS).values()
    figure = print_trust({f"kind {number}": one for number in range(28)}, TRUST.percentages)
    titles = [axes.get_title().split("\n")[0] for axes in figure.axes]
    assert (titles[0], titles[25], titles[26], titles[27]) == (
        "(a) kind 0", "(z) kind 25", "(aa) kind 26", "(ab) kind 27",
    )  # fmt: skip


def test_the_print_shows_the_same_numbers_as_the_screen() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.report.diagnosis_print import print_moments, print_signals

    diagnosis, recording = made_diagnosis()
    first = print_signals(diagnosis, recording).axes[0]
    np.testing.assert_array_equal(first.lines[1].get_ydata(), recording.episode.values[1])
    image = print_moments(diagnosis, [2]).axes[0].images[0]
    np.testing.assert_allclose(image.get_array(), diagnosis.spatial_attention[2])


def test_in_print_no_legend_is_cut_off_and_no_title_touches_the_next() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.report.diagnosis_print import STYLE, print_moments, print_signals

    diagnosis, recording = made_diagnosis(n_sensors=7, n_segments=120)
    late = replace(diagnosis, segment_bounds=diagnosis.segment_bounds + 1000.25)
    with matplotlib.rc_context(STYLE):
        signals, moments = print_signals(diagnosis, recording), print_moments(late, [117, 118, 119])
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


def test_the_trust_of_a_single_episode_is_dots_of_three_colours() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.report.diagnosis_print import print_trust

    single = {"bump": {which: np.array([[1.0, 2.0]]) for which in ("top", "random", "bottom")}}
    (axes,) = print_trust(single, np.array([1.0, 5.0])).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert len({line.get_color() for line in dots}) == 3
    assert all(line.get_ydata().tolist() == [1.0, 2.0] for line in dots)


def test_without_matplotlib_figures_are_refused_before_anything_is_diagnosed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dfstrans import Diagnoser
    from dfstrans.report.figure_folder import FigureFolder

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DfstransError, match=r"pip install 'dfstrans\[paper\]'"):
        FigureFolder(tmp_path, Diagnoser())
