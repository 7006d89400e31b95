from __future__ import annotations

from dataclasses import replace

import numpy as np

from dfstrans.report.figures import ANOMALOUS, MARKED, attention_figure, cells_figure, lanes_figure, signals_figure
from dfstrans.report.views import between_sensors, shaded
from tests.report.drawn import made_diagnosis


def test_the_moments_to_look_at_are_shaded_in_every_row() -> None:
    diagnosis, recording = made_diagnosis()
    figure = signals_figure(diagnosis, recording)
    marked = [shape for shape in figure.layout.shapes if shape.fillcolor == MARKED]
    assert {(shape.x0, shape.x1) for shape in marked} == set(shaded(diagnosis))
    assert len(marked) == 5 * len(shaded(diagnosis))  # four sensors and the ranking
    assert figure.layout.annotations[0].text == "S1"


def test_bars_and_cells_show_the_ranking_scores() -> None:
    diagnosis, recording = made_diagnosis()
    occlusion = np.random.default_rng(0).random((6, 4))
    for one, ranking in ((diagnosis, diagnosis.deviation), (replace(diagnosis, occlusion=occlusion), occlusion)):
        (bars,) = (trace for trace in signals_figure(one, recording).data if trace.type == "bar")
        np.testing.assert_allclose(bars.y, ranking.max(axis=1))
        assert bars.marker.color[int(ranking.max(axis=1).argmax())] == ANOMALOUS
        np.testing.assert_allclose(cells_figure(one, recording).data[0].customdata, ranking.T, rtol=1e-6)


def test_lanes_show_every_sensor_and_the_known_fault() -> None:
    diagnosis, recording = made_diagnosis()
    lanes = lanes_figure(diagnosis, recording)
    assert [trace.name for trace in lanes.data] == list(diagnosis.sensors)
    assert lanes.layout.yaxis.ticktext == (*diagnosis.sensors, "known fault")
    assert lanes.layout.xaxis.title.text == "time in s"


def test_attention_matrix_is_above_its_column_sums_with_excess_in_red() -> None:
    diagnosis, _ = made_diagnosis()
    matrix, dots, bars, edges = attention_figure(between_sensors(diagnosis), diagnosis.sensors, "sensor").data
    np.testing.assert_allclose(np.sum(matrix.z, axis=0), bars.y, rtol=1e-6)
    assert list(zip(dots.x, dots.y, strict=True)) == [(name, name) for name in diagnosis.sensors]
    assert [colour == ANOMALOUS for colour in bars.marker.color] == [False, False, True, True]
    np.testing.assert_allclose(edges.y, bars.y - 0.1 * (np.linspace(0.5, 1.5, 4) - 1))
