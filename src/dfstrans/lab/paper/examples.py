"""The model and the episodes that the figures of diagnoses show."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.saved_model import holds_model
from dfstrans.detectors.workflow import part_of, partial_folder, train_model
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.compare.grid import some_of
from dfstrans.lab.paper.request import QUICK, Request, data_folder, recordings_of
from dfstrans.training.run_folder import OtherRunError, checkpoint_is_whole

POINT_KINDS = ("bump",)  # point anomaly journeys (PAJ) of the paper, in the simulated elevator
LASTING_KINDS = ("lubrication", "misalignment")  # friction journeys (FJ)
LASTING_SHARE = 0.5  # share of the time from which a fault of another kind counts as lasting

NEEDED = {
    "fig:lsa": ("point",),
    "fig:mix": ("lasting",),
    "fig:lta": ("point", "lasting", "normal"),
    "fig:at_scores": ("anomalous",),
}
"""The kinds of episodes that a figure needs."""
DESCRIPTIONS = {
    "point": "episodes with point anomalies",
    "lasting": "episodes with lasting anomalies",
    "normal": "normal episodes",
    "anomalous": "anomalous episodes",
}

Rows = npt.NDArray[np.intp]


class Subject(NamedTuple):
    """A model and the episodes to show; `part` describes which part of the data set they are."""

    detector: Diagnoser
    episodes: Episodes
    part: str
    name: str  # of the model


def subject_of(request: Request) -> Subject:
    """The given model and recordings, or a model trained on the simulated elevator and kept."""
    if request.model is not None:
        if request.data is None:
            raise DfstransError(
                f"expected the recordings to diagnose with {option_name('model')}, got none; name a file of them with "
                f"{option_name('data', ...)}"
            )
        if "epochs" in request.overrides or "seed" in request.overrides:
            raise DfstransError(
                f"expected neither {option_name('epochs')} nor {option_name('seed')} with {option_name('model')}, "
                "which is already trained, got one of them; omit it"
            )
        return _shown(request, Diagnoser.load(request.model), load_episodes(request.data), request.model.name)
    if request.data is not None and request.data.is_file():
        raise DfstransError(
            f"expected a folder for simulated journeys, got the file {request.data}; name the model that is to "
            f"diagnose these recordings ({option_name('model', ...)}), or leave {option_name('data')} out"
        )
    journeys = recordings_of("elevator", "no-overlap", data_folder(request.data), request.preset).path
    if request.finished:
        _require_finished(request, journeys)
    request.simulate(journeys, request.preset)
    episodes = _some(request, load_episodes(journeys))
    return _shown(request, trained_model(request, episodes), episodes, f"trained on {journeys.name}")


def trained_model(request: Request, episodes: Episodes) -> Diagnoser:
    """The stored model with the same settings, or a new one; an interrupted training is resumed."""
    quick = {"epochs": QUICK["epochs"]} if request.quick else {}
    settings = {"seed": 0, **quick, **request.overrides}
    place = _model_place(request)
    if holds_model(place):
        detector = Diagnoser.load(place)
        _check_kept(request, detector, Diagnoser.from_settings(**settings), episodes)
        return detector
    resume = checkpoint_is_whole(partial_folder(place))
    try:
        detector = train_model(Diagnoser.from_settings(**settings), episodes, place, resume=resume, progress=True)
    except OtherRunError as other:
        raise DfstransError(
            f"expected the interrupted training of this request at {other.folder}, got {other.found}; give the same "
            f"settings to continue it, move that folder, or choose another {option_name('out')} (nothing was "
            "overwritten)"
        ) from other
    assert isinstance(detector, Diagnoser)  # the default kind
    return detector


def _model_place(request: Request) -> Path:
    return request.out / f"model_elevator_{request.preset}"


def _require_finished(request: Request, journeys: Path) -> None:
    """Refuse to simulate or train if only finished results are requested."""
    for what, place, there in (
        ("a trained model", _model_place(request), holds_model(_model_place(request))),
        ("its journeys", journeys, journeys.exists()),
    ):
        if not there:
            raise DfstransError(
                f"expected {what} at {place} for {option_name('finished', True)}, got none; omit it to simulate "
                f"and train, or give a trained {option_name('model', ...)}"
            )


def _check_kept(request: Request, kept: Diagnoser, wanted: Diagnoser, episodes: Episodes) -> None:
    """Refuse a stored model with other settings or recordings."""
    found, asked = kept.all_settings(), wanted.all_settings()
    changed = [
        f"{name}={found[name]!r} instead of {value!r}"
        for name, value in asked.items()
        if value is not None and found[name] != value
    ]
    if kept.data_.source_fingerprint != episodes.fingerprint():
        changed.append("other recordings")
    if changed:
        raise DfstransError(
            f"expected the model of this request at {request.out}, got one with {', '.join(changed)}; choose another "
            f"{option_name('out')}, or move that model (nothing was overwritten)"
        )


def _some(request: Request, episodes: Episodes) -> Episodes:
    """All episodes, or a few for a quick look."""
    return some_of(episodes, QUICK["at_most"] if request.quick else None, request.seed)


def _shown(request: Request, detector: Diagnoser, episodes: Episodes, name: str) -> Subject:
    """The episodes that the model was not trained on, if these are known; a few of all for a quick look."""
    if request.quick:
        return Subject(detector, _some(request, episodes), "some of all, including training episodes", name)
    record, fingerprint = detector.data_, episodes.fingerprint()
    if record.split is not None and record.source_fingerprint == fingerprint:
        held_out = [part_of(detector, episodes, part) for part in ("validation", "test")]
        return Subject(detector, Episodes.concatenate(held_out), "validation and test", name)
    unknown = "all; it is not known whether the model was trained on them"
    part = {
        record.validation_fingerprint: "all, which are the validation part",
        record.train_fingerprint: "all, which are the training part, so scores are too high",
    }.get(fingerprint, unknown if record.split is None else "all, from another set than the training part")
    return Subject(detector, episodes, part, name)


# ---- which episodes -------------------------------------------------------------------------------------------------


class Examples(NamedTuple):
    """Rows of episodes of each kind, the most certain first."""

    point: Rows
    lasting: Rows
    normal: Rows
    anomalous: Rows


def examples_of(episodes: Episodes, probabilities: npt.NDArray[np.float64], threshold: float) -> Examples:
    """The episodes of each kind, sorted by how certain the model is of them.

    Anomalous episodes are the detected ones among those labelled anomalous; if none is detected, all labelled
    anomalous; without labels, all detected ones.
    """
    detected = probabilities >= threshold
    truly = detected if episodes.labels is None else episodes.labels == 1
    chosen = truly & detected if (truly & detected).any() else truly
    most_certain = np.argsort(-probabilities, kind="stable")
    anomalous = most_certain[chosen[most_certain]]
    lasting = {int(row): _lasts(next(iter(episodes[[int(row)]]))) for row in anomalous}
    point = [row for row in anomalous if lasting[int(row)] is not True]
    # as in fig:PAJ38, an episode with two point anomalies comes first
    point.sort(key=lambda row: episodes.faults is None or len(episodes.faults[row]) != 2)
    return Examples(
        np.array(point, dtype=np.intp),
        np.array([row for row in anomalous if lasting[int(row)] is not False], dtype=np.intp),
        most_certain[~truly[most_certain]][::-1],
        anomalous,
    )


def require_examples(found: Examples, target: str, n_episodes: int) -> None:
    """Refuse recordings without a kind of episodes that the figure needs."""
    for kind in NEEDED[target]:
        if not len(getattr(found, kind)):
            raise DfstransError(
                f"expected {DESCRIPTIONS[kind]} for {target} among {n_episodes} episodes, got none; give more "
                "recordings, or a better model (see its test metrics)"
            )


def _lasts(episode: Episode) -> bool | None:
    """Whether the faults cover most of the time; None if their times are unknown."""
    if not episode.faults:
        return None
    kinds = {fault.kind for fault in episode.faults}
    if kinds <= set(POINT_KINDS) or kinds <= set(LASTING_KINDS):
        return kinds <= set(LASTING_KINDS)
    faulty = np.zeros(episode.values.shape[1], dtype=np.bool_)
    for fault in episode.faults:
        faulty[fault.start : fault.stop] = True
    return bool(faulty.mean() >= LASTING_SHARE)


def fault_segments(episode: Episode, segment_length: int, most: int = 2) -> list[int]:
    """The segments at the middle of the first faults; none if the times of faults are unknown."""
    middles = [(fault.start + fault.stop - 1) // 2 // segment_length for fault in episode.faults or ()]
    return sorted(dict.fromkeys(middles))[:most]


def group_name(kind: str) -> str:
    """A kind of fault with the paper's name for it."""
    paper = "PAJ" if kind in POINT_KINDS else "FJ" if kind in LASTING_KINDS else ""
    return f"{kind}, {paper}" if paper else kind
