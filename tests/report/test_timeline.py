from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dfstrans.data.episodes import Fault
from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.recordings import Recording
from dfstrans.report.diagnosis_page import write_pages
from dfstrans.report.figures import ANOMALOUS
from dfstrans.report.page import page_name
from dfstrans.report.timeline import long_recordings, piece_of, timeline_figure
from tests.report.drawn import made_diagnosis
from tests.report.reading import words
from tests.report.test_page_is_consistent import array, figures

PROBABILITIES = (0.1, 0.95, 0.4, 0.7)


def made_pieces(starts: Sequence[int] = (0, 60, 120, 180), dated: bool = False) -> list[tuple[Diagnosis, Recording]]:
    """Pieces of a recording of 60 points, 30 s each; a fault of 5 s begins 5 s after the start of the second."""
    found = []
    for number, (start, probability) in enumerate(zip(starts, PROBABILITIES, strict=True)):
        name = f"pump 1@{start}"
        diagnosis, recording = made_diagnosis(probability=probability, name=name)
        began = np.datetime64("2024-05-31T23:59:00", "ns") + np.timedelta64(500 * start, "ms") if dated else None
        faults = (Fault(10, 20, (), "bump"),) if number == 1 else ()
        episode = recording.episode._replace(faults=faults, label=int(number == 1), start=began)
        clock = Clock("s", start * 0.5, began, "UTC" if dated else "")
        found.append((replace(diagnosis, clock=clock), replace(recording, episode=episode)))
    return found


def timeline_of(page: Path) -> dict[str, Any]:
    (figure,) = figures(page.read_text(encoding="utf-8"))
    return figure


@pytest.mark.parametrize("dated", [False, True])
def test_a_timeline_has_the_numbers_of_the_json(tmp_path: Path, dated: bool) -> None:
    made = made_pieces(dated=dated)
    contents = [json.loads(json.dumps(diagnosis.to_dict())) for diagnosis, _ in made]
    index = write_pages(tmp_path, reversed(made))
    bars, truth = timeline_of(index)["data"]
    np.testing.assert_allclose(array(bars["y"]), [one["probability"] for one in contents])
    assert [colour == ANOMALOUS for colour in bars["marker"]["color"]] == [one["is_anomaly"] for one in contents]
    assert bars["customdata"] == [page_name(one["episode_id"]) for one in contents]
    assert all((tmp_path / page).is_file() for page in bars["customdata"])
    assert timeline_of(index)["layout"]["shapes"][0]["y0"] == contents[0]["threshold"]
    if dated:
        assert [np.datetime64(x) for x in bars["x"]] == [np.datetime64(one["started"]) for one in contents]
        assert array(bars["width"]).tolist() == [30_000] * 4
        assert truth["x"][:2] == ["2024-05-31T23:59:35.000000", "2024-05-31T23:59:40.000000"]
    else:
        assert bars["x"] == [one["offset"] for one in contents] == [0, 30, 60, 90]
        assert array(bars["width"]).tolist() == [30] * 4
        assert truth["x"][:2] == [35, 40]
    for text, one in zip(bars["text"], contents, strict=True):
        assert f"probability {one['probability']:.3f}" in text
    assert "pump 1 2 of 4 anomalous" in words(index)


def test_times_of_a_piece_are_those_of_its_recording(tmp_path: Path) -> None:
    for dated, moment in ((True, "2024-05-31 23:59:45 – 23:59:50"), (False, "45 – 50 s")):
        diagnosis, recording = made_pieces(dated=dated)[1]
        write_pages(tmp_path, [(diagnosis, recording)])
        page = tmp_path / page_name(diagnosis.episode_id)
        assert f"strongest at {moment}" in words(page)
        assert moment in words(tmp_path / "index.html")
        assert moment.replace("–", "to") in diagnosis.summary()
        for figure in list(figures(page.read_text(encoding="utf-8")))[:3]:
            first, last = figure["layout"]["xaxis"]["range"]
            expected = diagnosis.clock.at([0, 30])
            assert [first, last] == expected


def test_overlapping_pieces_do_not_hide_each_other() -> None:
    pieces = [piece_of(diagnosis, recording.episode, True) for diagnosis, recording in made_pieces((0, 30, 60, 180))]
    (found,) = long_recordings(pieces).values()
    assert array(timeline_figure(found).to_plotly_json()["data"][0]["width"]).tolist() == [15, 15, 30, 30]


def test_a_piece_without_a_page_opens_nothing() -> None:
    pieces = [piece_of(*made_pieces()[row][:1], made_pieces()[row][1].episode, row == 1) for row in range(4)]
    figure = timeline_figure(pieces)
    assert [bool(page) for page in figure.data[0].customdata] == [False, True, False, False]


def test_labelled_pieces_without_known_faults_are_marked_as_a_whole() -> None:
    diagnosis, recording = made_pieces()[2]
    labelled = recording.episode._replace(label=1, faults=None)
    assert piece_of(diagnosis, labelled, True).faults == ((0, 30),)


def test_separate_recordings_have_no_timeline_but_dated_ones_of_a_group_do() -> None:
    separate = [made_diagnosis(name=f"run {n}") for n in range(3)]
    assert long_recordings(piece_of(diagnosis, recording.episode, True) for diagnosis, recording in separate) == {}
    dated = [
        piece_of(
            replace(diagnosis, clock=Clock("s", 0, np.datetime64("2024-05-31T10") - np.timedelta64(n, "h"))),
            recording.episode._replace(group="mill 3"),
            True,
        )
        for n, (diagnosis, recording) in enumerate(separate)
    ]
    (name,), (pieces,) = zip(*long_recordings(dated).items(), strict=True)
    assert (name, [piece.episode_id for piece in pieces]) == ("mill 3", ["run 2", "run 1", "run 0"])
