"""Whose diagnoses the figures show: a model that is given, or one trained on the simulated elevator and kept."""

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
from dfstrans.lab.paper.datasets import data_folder, place_of
from dfstrans.lab.paper.request import QUICK, Request, Simulate

POINT_KINDS = ("bump",)  # of the simulated elevator: what the paper calls point anomaly journeys, PAJ
LASTING_KINDS = ("lubrication", "misalignment")  # friction journeys, FJ
LASTS = 0.5  # share of the time, from which on an anomaly of another kind is one that lasts
POINT_JOURNEYS = 5  # of fig:paj_ax_local
LASTING_JOURNEYS = NORMAL_JOURNEYS = 3  # of fig:paj_id_local
POINT_SENSORS, LASTING_SENSOR = ("Ax", "Ay"), "Iq"  # of fig:lta

SHOWN = {
    "fig:lsa": ("point",),
    "fig:mix": ("lasting",),
    "fig:lta": ("point", "lasting", "normal"),
    "fig:at_scores": ("anomalous",),
}
"""The kinds of episodes that a figure cannot do without."""
DESCRIBED = {
    "point": "episodes with point anomalies",
    "lasting": "episodes with anomalies that last",
    "normal": "normal episodes",
    "anomalous": "anomalous episodes",
}

Rows = npt.NDArray[np.intp]


class Exemplars(NamedTuple):
    """Rows of episodes, the surest first: with point anomalies, with some that last, normal; all that are anomalous."""

    point: Rows
    lasting: Rows
    normal: Rows
    anomalous: Rows


def exemplars_of(episodes: Episodes, probabilities: npt.NDArray[np.float64], threshold: float) -> Exemplars:
    """The episodes that stand for each kind.

    Anomalous are those that are labelled so and detected; where none is detected, as by a model that has only just
    begun, all that are labelled so; without labels, those that are detected.
    """
    detected = probabilities >= threshold
    truly = detected if episodes.labels is None else episodes.labels == 1
    chosen = truly & detected if (truly & detected).any() else truly
    surest = np.argsort(-probabilities, kind="stable")
    anomalous = surest[chosen[surest]]
    lasting = {int(row): _lasts(next(iter(episodes[[int(row)]]))) for row in anomalous}
    point = [row for row in anomalous if lasting[int(row)] is not True]
    # as in fig:PAJ38, one with two point anomalies goes first
    point.sort(key=lambda row: episodes.faults is None or len(episodes.faults[row]) != 2)
    return Exemplars(
        np.array(point, dtype=np.intp),
        np.array([row for row in anomalous if lasting[int(row)] is not False], dtype=np.intp),
        surest[~truly[surest]][::-1],
        anomalous,
    )


def require_shown(found: Exemplars, target: str, n_episodes: int) -> None:
    """Refuse recordings that lack a kind of episodes which the figure shows."""
    for kind in SHOWN[target]:
        if not len(getattr(found, kind)):
            raise DfstransError(
                f"expected {DESCRIBED[kind]} for {target} among the {n_episodes} episodes that can be shown, got no "
                "such; give more recordings, or train a better model (its test figures tell)"
            )


def _lasts(episode: Episode) -> bool | None:
    """Whether what is wrong is wrong for most of the time; None where nobody knows when it is."""
    if not episode.faults:
        return None
    kinds = {fault.kind for fault in episode.faults}
    if kinds <= set(POINT_KINDS) or kinds <= set(LASTING_KINDS):
        return kinds <= set(LASTING_KINDS)
    length = episode.values.shape[1]
    wrong = np.zeros(length, dtype=np.bool_)
    for fault in episode.faults:
        wrong[fault.start : fault.stop] = True
    return bool(wrong.mean() >= LASTS)


def moments_of_faults(episode: Episode, segment_length: int, most: int = 2) -> list[int]:
    """The segments in which the first faults have their middle; none where it is not known when they are."""
    middles = [(fault.start + fault.stop - 1) // 2 // segment_length for fault in episode.faults or ()]
    return sorted(dict.fromkeys(middles))[:most]


def group_name(kind: str) -> str:
    """A kind of fault with what the paper calls it."""
    paper = "PAJ" if kind in POINT_KINDS else "FJ" if kind in LASTING_KINDS else ""
    return f"{kind}, {paper}" if paper else kind


class Subject(NamedTuple):
    """A model, and recordings to show it with; `part` tells which of its set these are."""

    detector: Diagnoser
    episodes: Episodes
    part: str
    name: str  # of the model


def subject_of(request: Request, simulate: Simulate) -> Subject:
    """The model and the recordings of a request."""
    if request.model is not None:
        if request.data is None:
            raise DfstransError(
                f"expected the recordings to diagnose with {option_name('model')}, got none; name a file of them with "
                f"{option_name('data', ...)}"
            )
        if "epochs" in request.overrides or "seed" in request.overrides:
            raise DfstransError(
                f"expected neither {option_name('epochs')} nor {option_name('seed')} with {option_name('model')}, "
                "which is trained already, got one of them; leave it out"
            )
        return _shown(request, Diagnoser.load(request.model), load_episodes(request.data), request.model.name)
    if request.data is not None and request.data.is_file():
        raise DfstransError(
            f"expected a folder for simulated journeys, got the file {request.data}; name the model that is to "
            f"diagnose these recordings ({option_name('model', ...)}), or leave {option_name('data')} out"
        )
    place = place_of("elevator", "no-overlap", data_folder(request.data), request.preset).path
    if request.finished:
        _require_there(request, place)
    simulate(place, request.preset)
    episodes = _some(request, load_episodes(place))
    return _shown(request, trained(request, episodes), episodes, f"trained on {place.name}")


def _model_place(request: Request) -> Path:
    """Where the model that is trained for the figures is kept."""
    return request.out / f"model_elevator_{request.preset}"


def _require_there(request: Request, journeys: Path) -> None:
    """Refuse to simulate and to train where only what is finished is to be shown."""
    for what, place, there in (
        ("a trained model", _model_place(request), holds_model(_model_place(request))),
        ("its journeys", journeys, journeys.exists()),
    ):
        if not there:
            raise DfstransError(
                f"expected {what} at {place} for {option_name('finished', True)}, which computes no such, got none; "
                f"leave it out to simulate and train, or give a trained {option_name('model', ...)}"
            )


def trained(request: Request, episodes: Episodes) -> Diagnoser:
    """The model of an earlier run with the same settings, or a new one; an interrupted training goes on."""
    from dfstrans.training.run_folder import OtherRunError, checkpoint_is_whole

    quick = {"epochs": QUICK["epochs"]} if request.quick else {}
    settings = {"seed": 0, **quick, **request.overrides}
    place = _model_place(request)
    if holds_model(place):
        detector = Diagnoser.load(place)
        _check_kept(request, detector, Diagnoser.from_settings(**settings), episodes)
        return detector
    resume = checkpoint_is_whole(partial_folder(place))
    try:
        detector = train_model(episodes, place, resume=resume, progress=True, **settings)
    except OtherRunError as other:
        raise DfstransError(
            f"expected the interrupted training of this very request at {other.folder}, got {other.found}; give the "
            f"same settings to go on with it, move that folder, or choose another {option_name('out')} (nothing was "
            "overwritten)"
        ) from other
    assert isinstance(detector, Diagnoser)  # the default kind
    return detector


def _check_kept(request: Request, kept: Diagnoser, wanted: Diagnoser, episodes: Episodes) -> None:
    """Refuse a kept model of other settings or recordings."""
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
            f"expected the model of this very request at {request.out}, got one with {', '.join(changed)}; choose "
            f"another {option_name('out')}, or move that model (nothing was overwritten)"
        )


def _some(request: Request, episodes: Episodes) -> Episodes:
    """All, or for a quick look a few."""
    return some_of(episodes, QUICK["at_most"] if request.quick else None, request.seed)


def _shown(request: Request, detector: Diagnoser, episodes: Episodes, name: str) -> Subject:
    """What the model did not learn from, where that can be told; a quick look takes some of all."""
    if request.quick:
        return Subject(detector, _some(request, episodes), "some of all, also those of training", name)
    record, fingerprint = detector.data_, episodes.fingerprint()
    if record.split is None or record.source_fingerprint != fingerprint:
        known = {
            record.validation_fingerprint: "all, which are those of validation",
            record.train_fingerprint: "all, which the model learned from, so they flatter",
        }
        other = (
            "all; whether the model learned from them is not known"
            if record.split is None
            else "all, of another set than that of training"
        )
        return Subject(detector, episodes, known.get(fingerprint, other), name)
    held_out = [part_of(detector, episodes, part) for part in ("validation", "test")]
    return Subject(detector, Episodes.concatenate(held_out), "validation and test", name)
