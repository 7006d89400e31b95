"""Long recordings that were cut into pieces: the probability of each piece over time, with a link to its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from dfstrans.data.episodes import Episode
from dfstrans.data.readers.cutting import recording_and_start
from dfstrans.diagnosis.clock import Clock
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.report.figures import ANOMALOUS, INK, KNOWN, NORMAL, styled, time_ticks
from dfstrans.report.page import page_name

TRUTH_LANE = -0.09  # below the probabilities
HEIGHT = 170  # pixels
MOST_BARS = 250  # side by side, each wide enough to be seen


class Piece(NamedTuple):
    """A piece of a recording, with the numbers of its diagnosis; times count from its start."""

    episode_id: str
    recording: str
    clock: Clock
    duration: float
    probability: float
    threshold: float
    is_anomaly: bool
    faults: tuple[tuple[float, float], ...]  # or all of it, if it is labelled anomalous and its faults are unknown
    has_page: bool


def piece_of(diagnosis: Diagnosis, episode: Episode, has_page: bool) -> Piece:
    """Return what a timeline shows of one episode; an episode with its own date and time is a piece of its group."""
    cut, clock = recording_and_start(diagnosis.episode_id), diagnosis.clock
    group = episode.group if clock.start is not None and episode.group is not None else diagnosis.episode_id
    duration = float(diagnosis.segment_bounds[-1, 1])
    step = duration / max(episode.values.shape[1], 1)
    known = [(fault.start * step, fault.stop * step) for fault in episode.faults or ()]
    return Piece(
        diagnosis.episode_id,
        cut[0] if cut else group,
        clock,
        duration,
        diagnosis.probability,
        diagnosis.threshold,
        diagnosis.is_anomaly,
        tuple(known or ([(0.0, duration)] if episode.label == 1 else [])),
        has_page,
    )


def long_recordings(pieces: Iterable[Piece]) -> dict[str, list[Piece]]:
    """Return the pieces of each recording that has several of them, in order of time."""
    found: dict[tuple[str, bool], list[Piece]] = {}
    for piece in pieces:
        dated = piece.clock.start is not None
        found.setdefault((piece.recording, dated), []).append(piece)
    return {name: sorted(own, key=_position) for (name, _), own in found.items() if len(own) > 1}


def timeline_figure(pieces: Sequence[Piece]) -> go.Figure:
    """Plot the probability of each piece of a recording, alarms in red, above what is known to be anomalous.

    A bar ends where the next piece begins, so that overlapping pieces do not hide each other, and short pieces far
    apart are wide enough to be seen.
    """
    begins = np.array([_position(one) for one in pieces])
    lengths = np.array([one.clock.length(one.duration) for one in pieces])
    narrowest = (begins[-1] + lengths[-1] - begins[0]) / MOST_BARS
    widths = np.minimum(np.maximum(lengths, narrowest), np.diff([*begins, np.inf])).tolist()
    figure = go.Figure(
        go.Bar(
            x=[_begin(one) for one in pieces],
            y=[one.probability for one in pieces],
            width=widths,
            offset=0,
            marker={"color": [ANOMALOUS if one.is_anomaly else NORMAL for one in pieces], "line": {"width": 0}},
            customdata=[page_name(one.episode_id) if one.has_page else "" for one in pieces],
            text=[_describe(one) for one in pieces],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    )
    faults = [one.clock.at(span) for one in pieces for span in one.faults]
    figure.add_scatter(
        x=[time for start, end in faults for time in (start, end, None)],
        y=[TRUTH_LANE, TRUTH_LANE, None] * len(faults),
        mode="lines",
        line={"color": KNOWN, "width": 7},
        hoverinfo="skip",
    )
    figure.add_hline(pieces[0].threshold, line_dash="dash", line_color=INK, line_width=1)
    figure.update_xaxes(
        title={"text": pieces[0].clock.title, "standoff": 6},
        **time_ticks(pieces[0].clock),
        range=[_begin(pieces[0]), *pieces[-1].clock.at([pieces[-1].duration])],
    )
    figure.update_yaxes(range=[2 * TRUTH_LANE, 1.02], tickvals=[0, 0.5, 1], fixedrange=True, zeroline=False)
    styled(figure, height=HEIGHT, showlegend=False, barmode="overlay", hovermode="x", bargap=0)
    return figure.update_layout(margin={"l": 34, "r": 12, "t": 6, "b": 42})


def _begin(piece: Piece) -> Any:
    return piece.clock.at([0])[0]


def _position(piece: Piece) -> float:
    """Return where a piece begins on the time axis; dates count in milliseconds."""
    start = piece.clock.start
    return piece.clock.offset if start is None else float(start.astype("M8[us]").astype(np.int64)) / 1e3


def _describe(piece: Piece) -> str:
    verdict = "anomalous" if piece.is_anomaly else "not anomalous"
    opens = "click to open" if piece.has_page else "no page; diagnose with --all"
    return f"{piece.clock.span(0, piece.duration)}<br>probability {piece.probability:.3f}, {verdict}<br>{opens}"
