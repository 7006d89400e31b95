"""What the command line does, as functions: train a model from episodes, evaluate it, predict with it."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from dfstrans.data.episodes import Episode, Episodes
from dfstrans.data.inputs import match_sensors, require_both_classes
from dfstrans.data.segments import looks_transposed
from dfstrans.data.splits import SplitKind
from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.registry import detector_kind
from dfstrans.detectors.saved_model import check_place, holds_model, library_versions, read_record
from dfstrans.errors import DfstransError, Remark, option_name
from dfstrans.progress import Progress, no_progress, track
from dfstrans.settings import DFSTRANS
from dfstrans.training.run_folder import TENSORBOARD, can_resume

Part = Literal["all", "train", "validation", "test"]
PARTS = ("train", "validation", "test")


def train_model(
    episodes: Episodes,
    out: Path,
    *,
    split: SplitKind = "random",
    resume: bool = False,
    progress: bool = False,
    model: str = DFSTRANS,
    **settings: Any,
) -> EpisodeClassifier:
    """Split 70/15/15, train, evaluate on the test part, and save the model with all figures at `out`.

    `model` is a kind of detector, see `dfstrans.detectors.MODELS`, and `settings` are its arguments. Until the model is
    saved, each finished epoch is kept in the folder `<out>.partial`, from which `resume` goes on; where the model is
    finished, it is returned as it is.
    """
    detector = detector_kind(model)(**settings)
    seed = detector.training_settings(len(episodes)).seed
    check_place(out)
    require_both_classes(episodes.require_labels())
    suited(detector, episodes)
    if looks_transposed(episodes):
        warnings.warn(
            f"{episodes.n_sensors} sensors and only {episodes.n_timepoints} points look transposed; expected (episode, "
            "sensor, timepoint)",
            stacklevel=2,
        )
    train, validation, test = _parts(episodes, split, seed)
    partial = partial_folder(out)
    drawn = {"kind": split, "seed": seed}
    if resume and not can_resume(partial):
        finished = _finished(out, detector, train, episodes, drawn)
        if finished is not None:
            return finished
    if not resume:
        _set_aside(partial)
    detector.fit(train, validation=validation, run_folder=partial, resume=resume, progress=progress)
    detector.metrics_["test"] = detector.evaluate(test).to_dict() if len(test) else {}
    detector.data_ = detector.data_.model_copy(update={"split": drawn, "source_fingerprint": episodes.fingerprint()})
    detector.save(out)
    if (partial / TENSORBOARD).exists():
        shutil.move(partial / TENSORBOARD, out / TENSORBOARD)
    shutil.rmtree(partial, ignore_errors=True)
    return detector


def _finished(
    out: Path, detector: EpisodeClassifier, train: Episodes, episodes: Episodes, drawn: dict[str, Any]
) -> EpisodeClassifier | None:
    """The model at `out` when it is what this very run would give; then there is nothing to go on with."""
    if not holds_model(out):
        return None
    try:
        record = read_record(out)
        if record.estimator != detector.estimator_name:
            return None
        kept = type(detector).load(out)
    except DfstransError as error:
        warnings.warn(f"the model in {out} is trained again: {error}", stacklevel=3)
        return None
    same = (
        kept.network_settings_ == detector.network_settings(train)
        and kept.training_settings_ == detector.training_settings(len(train), train.n_anomalous)
        and kept.data_.split == drawn
        and trained_from(kept, episodes)
    )
    if not same:
        return None
    remedy = f"nothing to go on with; train without {option_name('resume')} to repeat it"
    others = [
        f"{name} {record.versions.get(name, 'unknown')} instead of {version}"
        for name, version in library_versions().items()
        if record.versions.get(name) != version
    ]
    if others:
        said = f"the model in {out} has the settings and recordings of this run, but is of other versions"
        warnings.warn(f"{said} ({', '.join(others)}), which may give other weights: {remedy} with these", stacklevel=3)
    else:
        warnings.warn(f"the model in {out} is what this run gives: {remedy}", Remark, stacklevel=3)
    return kept


def suited(detector: EpisodeClassifier, episodes: Episodes) -> EpisodeClassifier:
    """The unfitted detector, made for the lengths of all these episodes; an error before hours are spent on some."""
    network = detector.network_settings(episodes)
    open_settings = [name for name, value in detector.get_params().items() if value is None]
    chosen = {name: getattr(network, name) for name in open_settings if hasattr(network, name)}
    detector.set_params(**chosen)  # else fit would choose them by the training part alone
    detector.check_lengths(episodes, network)
    return detector


def _parts(episodes: Episodes, split: SplitKind, seed: int) -> tuple[Episodes, Episodes, Episodes]:
    """Training, validation and test part, the first with enough of both classes."""
    if split == "grouped":
        episodes.require_groups()
    parts = episodes.split(seed, by_group=split == "grouped")
    anomalous, normal = parts[0].n_anomalous, len(parts[0]) - parts[0].n_anomalous
    if min(anomalous, normal) < 2:
        raise DfstransError(
            f"expected at least two normal and two anomalous episodes in the training part, got {normal} and "
            f"{anomalous} there, of {len(episodes) - episodes.n_anomalous} normal and {episodes.n_anomalous} anomalous "
            "in all; add episodes of the rarer class (at least four of each), or another group of them"
        )
    return parts


def partial_folder(out: Path) -> Path:
    """Where a run keeps its checkpoint until its model is saved."""
    place = out.absolute()
    return place.with_name(place.name + ".partial")


def evaluate_diagnoses(
    detector: EpisodeClassifier,
    tested: Episodes,
    train: Episodes | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Compare the diagnoses of detected anomalies with their known causes; see `diagnosis.assessment`.

    The z-score floor is learned from the normal episodes of `train` where these are given, else from those at hand.
    """
    from dfstrans.diagnosis.assessment import assess

    if not isinstance(detector, Diagnoser):
        raise DfstransError(
            f"expected a model of the kind {DFSTRANS!r} for diagnoses, got {detector.estimator_name!r}, which tells "
            f"that an episode is anomalous but not why; evaluate it without {option_name('diagnosis')}"
        )
    tested = detector.check_input(tested)
    reference = tested if train is None else detector.check_input(train)
    normal = reference[reference.require_labels() == 0]
    anomalous = tested[tested.require_labels() == 1]
    diagnoses = track(detector.diagnose(anomalous, trust=True), "diagnosing", len(anomalous), progress)
    return assess(detector, detector.require_reference(), diagnoses, anomalous, normal, progress)


def trained_from(detector: EpisodeClassifier, episodes: Episodes) -> bool:
    """Whether these are the episodes that a model's parts were cut from; reads them all."""
    expected = detector.data_.source_fingerprint
    return expected is not None and expected == episodes.fingerprint()


def part_of(detector: EpisodeClassifier, episodes: Episodes, part: Part) -> Episodes:
    """All episodes, or one part of the set that the model was trained from, cut as it was then."""
    record, same_set = detector.data_, trained_from(detector, episodes)
    if part == "all":
        if same_set:
            warnings.warn(
                f"these are the episodes the model was trained from, and {option_name('part', 'all')} includes those "
                f"it was trained on, so the figures flatter; use {option_name('part', 'test')} (the parts are "
                f"{', '.join(PARTS)} and all)",
                stacklevel=2,
            )
        return episodes
    if not same_set or record.split is None:
        raise DfstransError(
            f"expected the very episodes that the model was trained from, for {option_name('part', part)}, got others; "
            f"evaluate all of these ({option_name('part', 'all')}), or give the recordings of training, read with the "
            "same options"
        )
    cut = episodes.split(record.split["seed"], by_group=record.split["kind"] == "grouped")
    if part != "test" and cut[0].fingerprint() != record.train_fingerprint:
        raise DfstransError(
            f"expected the parts that the model was trained with, for {option_name('part', part)}, got others, since "
            "versions of before cut some sets otherwise, but for the test part; train again, or take "
            f"{option_name('part', 'test')}"
        )
    return cut[PARTS.index(part)]


def predict_table(detector: EpisodeClassifier, episodes: Episodes) -> pd.DataFrame:
    """One row per episode: id, anomaly probability, decision, logit."""
    logits = detector.decision_function(episodes)
    probabilities = detector.calibration_.probabilities(logits)
    return pd.DataFrame(
        {
            "episode_id": episodes.ids,
            "probability": probabilities,
            "anomalous": (probabilities >= detector.threshold_.value).astype(int),
            "logit": logits,
        }
    )


def select_ids(episodes: Episodes, ids: Sequence[str]) -> Episodes:
    """The episodes of these ids, in this order."""
    rows = {str(name): row for row, name in enumerate(episodes.ids)}
    unknown = [name for name in ids if name not in rows]
    if unknown:
        some = ", ".join(list(rows)[:5])
        raise DfstransError(
            f"expected ids of the {len(rows)} episodes (such as {some}), got {', '.join(unknown)}; correct them"
        )
    return episodes[[rows[name] for name in ids]]


def out_of_range(detector: EpisodeClassifier, episodes: Episodes) -> dict[str, float]:
    """The share of each sensor's values that lie outside its training range, worst first; only those that do."""
    episodes = detector.check_input(episodes)
    shares = detector.scaler_.count_out_of_range(episodes) / max(int(episodes.lengths.sum()), 1)
    order = np.argsort(-shares, kind="stable")
    return {episodes.sensors[i]: float(shares[i]) for i in order if shares[i] > 0}


def _set_aside(partial: Path) -> None:
    """Starting anew does not destroy an interrupted run: its folder is kept under another name, once."""
    if not partial.is_dir():
        return
    old = partial.with_name(partial.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    partial.rename(old)
    warnings.warn(f"an unfinished run was set aside as {old}; resume goes on with one instead", stacklevel=3)


NAMED = 10  # episodes that a remark names


class Scorable(NamedTuple):
    """The episodes that can be scored, and the others: each with its `id` and the `reason`, for JSON."""

    episodes: Episodes
    left_out: list[dict[str, str]]


def scorable(
    detector: EpisodeClassifier, episodes: Episodes, remark: Callable[[str], None], *, every: bool = False
) -> Scorable:
    """The episodes without those that are too short or too long for the detector or have no value at all.

    Those are named in a remark, each with its reason. With `every`, or when none is left, they are an error.
    """
    reasons = {**_of_wrong_length(detector, episodes), **_empty(detector, episodes)}
    if not reasons:
        return Scorable(episodes, [])
    if every or len(reasons) == len(episodes):
        raise DfstransError(reasons[min(reasons)])
    rows = sorted(reasons)
    named = [str(episodes.ids[row]) for row in rows]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    remark(f"left out {len(named)} of {len(episodes)} episodes: {', '.join(named[:NAMED])}{more}")
    first_of_each = {reasons[row].split(", got")[0]: reasons[row] for row in reversed(rows)}
    for reason in first_of_each.values():
        remark(f"  {reason}")
    left_out = [{"id": str(episodes.ids[row]), "reason": reasons[row]} for row in rows]
    return Scorable(episodes[np.setdiff1d(np.arange(len(episodes)), rows)], left_out)


def _of_wrong_length(detector: EpisodeClassifier, episodes: Episodes) -> dict[int, str]:
    """What the detector says against an episode's length, by row; of a length that suits, one episode is tried."""
    found: dict[int, str] = {}
    for length in np.unique(episodes.lengths):
        for row in np.flatnonzero(episodes.lengths == length).tolist():
            try:
                detector.check_lengths(episodes[[row]], detector.network_settings_)
            except DfstransError as error:
                found[row] = str(error)
            else:
                break
    return found


def _empty(detector: EpisodeClassifier, episodes: Episodes) -> dict[int, str]:
    """Episodes in which every sensor that the detector looks at is missing from beginning to end, by row."""
    return {
        row: f"expected at least one value of a sensor in each episode, got none in episode {episode.id!r}; record it "
        "again, or leave it out"
        for row, episode in enumerate(match_sensors(episodes, detector.sensors_))
        if _has_no_value(episode)
    }


def _has_no_value(episode: Episode) -> bool:
    """Whether all is missing; most episodes show at their first point that it is not."""
    return bool(np.isnan(episode.values[:, 0]).all() and np.isnan(episode.values).all())
