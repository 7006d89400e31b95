"""The main commands as functions: train a model, evaluate it on a part, predict."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfstrans.data.check import check_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import require_both_classes, without_values
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.segments import looks_transposed
from dfstrans.data.splits import PAPER_FRACTIONS, SplitKind, describe_split, imbalance
from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.recipe import recipe_of
from dfstrans.detectors.saved_model import DataRecord, check_place, holds_model, library_versions, read_whole_record
from dfstrans.diagnosis.metrics.assessment import assess
from dfstrans.errors import DfstransError, Note, list_few, option_name, reading_option_name
from dfstrans.files import atomic_write
from dfstrans.model.novelty import verdicts
from dfstrans.progress import Progress, no_progress, track
from dfstrans.settings import DFSTRANS, setting_name
from dfstrans.training import processes
from dfstrans.training.run_folder import TENSORBOARD, OtherRunError, can_resume, list_changes

Part = Literal["all", "train", "validation", "test"]
PARTS = ("train", "validation", "test")
Detector = TypeVar("Detector", bound=EpisodeClassifier)

# ---- train --------------------------------------------------------------------------------------------------------


def train_model(
    detector: Detector,
    episodes: Episodes,
    out: Path,
    *,
    split: SplitKind = "random",
    read: ReadOptions | Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Detector:
    """Split 70/15/15, train the detector, evaluate it on the test part, and save it with its metrics at `out`.

    `read` are the options that the episodes were read with; the model remembers them for `detector.load_episodes`.

    Until the model is saved, each finished epoch is kept in the folder `<out>.partial`, from which `resume` continues.
    If the model is already finished, `resume` returns it unchanged; a model of another run is refused.

    If a committee is interrupted after its trees are trained, these are saved at `out`, unless a model is there.
    """
    check_place(out)
    _require_labels(episodes)
    suited(detector, episodes)
    if looks_transposed(episodes):
        warnings.warn(
            f"{episodes.n_sensors} sensors and only {episodes.n_timepoints} points look transposed; expected (episode, "
            "sensor, timepoint)",
            stacklevel=2,
        )
    seed = detector.training_settings(len(episodes)).seed
    train, validation, test = _split_parts(episodes, split, seed)
    source = {"split": {"kind": split, "seed": seed}, "source_fingerprint": episodes.fingerprint()}
    partial = partial_folder(out)
    if not resume:
        processes.on_first(lambda: _move_aside(partial))
    elif not processes.on_first(lambda: can_resume(partial)):
        record = DataRecord.of(train, validation).model_copy(update=source)
        finished = _finished_model(out, detector, train, record)
        if finished is not None:
            return finished

    def finish(trained: EpisodeClassifier) -> None:
        trained.metrics_["test"] = {}
        if len(test):
            trained.evaluate_test(test)
        trained.data_ = trained.data_.model_copy(update=source)
        trained.parts_ = {**trained.parts_, "test": test.ids.tolist()}
        trained.reading_ = recipe_of(read)
        if processes.rank() == 0:
            trained.save(out)

    first: list[EpisodeClassifier] = []
    keep_first = None if holds_model(out) else first.append
    try:
        _fit(detector, train, validation, partial, resume=resume, progress=progress, on_first=keep_first)
    except KeyboardInterrupt:
        for trees in first:
            finish(trees)
        raise
    finish(detector)
    if processes.rank() == 0:
        if (partial / TENSORBOARD).exists():
            shutil.move(partial / TENSORBOARD, out / TENSORBOARD)
        shutil.rmtree(partial, ignore_errors=True)
    return detector


def _fit(
    detector: EpisodeClassifier, train: Episodes, validation: Episodes, partial: Path, *, resume: bool, **options: Any
) -> None:
    """Fit the detector in the folder of the run; to resume, an unfinished run that was set aside is used if it fits."""
    aside = resume and processes.on_first(lambda: not can_resume(partial) and can_resume(_set_aside(partial)))
    if aside:
        processes.on_first(lambda: _take_back(partial))
        warnings.warn(f"trying the unfinished run that was moved to {_set_aside(partial)}", Note, stacklevel=3)
    try:
        detector.fit(train, validation=validation, run_folder=partial, resume=resume, **options)
    except OtherRunError:
        if not aside:
            raise
        processes.on_first(lambda: partial.rename(_set_aside(partial)))
        detector.fit(train, validation=validation, run_folder=partial, resume=True, **options)


def _take_back(partial: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)  # without a checkpoint
    _set_aside(partial).rename(partial)


def _require_labels(episodes: Episodes) -> None:
    """Reject episodes without labels or of one class; a misnamed label column was read as a sensor, so list those."""
    if episodes.labels is None:
        similar = check_episodes(episodes).label_like_sensors
        guess = f"; is {similar[0]} the label?" if similar else ""
        raise DfstransError(
            "expected labelled episodes (0 normal, 1 anomalous), got episodes without labels, whose sensors are "
            f"{list_few(episodes.sensors, limit=20)}{guess}; name the label column "
            f"({reading_option_name('label_column', similar[0] if similar else ...)}), or add one, or a label table"
        )
    require_both_classes(episodes.labels)


def suited(detector: EpisodeClassifier, episodes: Episodes) -> EpisodeClassifier:
    """Return the unfitted detector with network settings chosen from all these episodes.

    Otherwise fit would choose them from the training part alone. Episodes of unsuitable length raise an error here,
    before training.
    """
    network = detector.network_settings(episodes)
    left_open = [name for name, value in detector.all_settings().items() if value is None and hasattr(network, name)]
    detector.set_params(**{detector.parameter_name(name): getattr(network, name) for name in left_open})
    detector.check_lengths(episodes, network)
    return detector


def partial_folder(out: Path) -> Path:
    """Return the folder where a run keeps its checkpoint until its model is saved."""
    place = out.absolute()
    return place.with_name(place.name + ".partial")


def _split_parts(episodes: Episodes, split: SplitKind, seed: int) -> tuple[Episodes, Episodes, Episodes]:
    """Return the training, validation and test part; the training part must have enough of both classes."""
    if split == "grouped":
        episodes.require_groups()
    episodes.warn_of_copies()
    parts = episodes.split(seed, by_group=split == "grouped")
    anomalous, normal = parts[0].n_anomalous, len(parts[0]) - parts[0].n_anomalous
    if min(anomalous, normal) < 2:
        raise DfstransError(
            f"expected at least two normal and two anomalous episodes in the training part, got {normal} and "
            f"{anomalous} there, of {len(episodes) - episodes.n_anomalous} normal and {episodes.n_anomalous} anomalous "
            "in all; add episodes of the rarer class (at least four of each), or groups that contain them"
        )
    if split == "grouped":
        _check_grouped(episodes, [part.require_labels() for part in parts])
    return parts


def _check_grouped(episodes: Episodes, parts: list[npt.NDArray[np.int8]]) -> None:
    """Reject a grouped split with a part that lacks a class, and state sizes that are far from 70/15/15."""
    if any(len(np.unique(part)) < 2 for part in parts):
        holding = {label: len(set(episodes.require_groups()[episodes.labels == label].tolist())) for label in (0, 1)}
        raise DfstransError(
            "expected groups that give the training, validation and test part both classes, got "
            f"{describe_split(parts)} from {holding[0]} groups with normal and {holding[1]} with anomalous episodes; "
            f"add groups with the rarer class, name a finer group ({reading_option_name('group_column', ...)}), or use "
            f"{option_name('split', 'random')}"
        )
    totals = np.array([[len(part) - part.sum(), part.sum(), len(part)] for part in parts], dtype=np.float64)
    if imbalance(totals, PAPER_FRACTIONS) > 0:
        warnings.warn(
            f"the groups do not allow parts of 70, 15 and 15 %: the best assignment found has {describe_split(parts)}",
            stacklevel=4,
        )


def _finished_model(out: Path, detector: Detector, train: Episodes, data: DataRecord) -> Detector | None:
    """Return the model at `out` if it is the result of this run; reject the model of another run.

    A damaged model, or one in the format of another version, is trained again with a warning.
    """
    if not holds_model(out):
        return None
    try:
        record = read_whole_record(out)
    except DfstransError as error:
        warnings.warn(f"the model in {out} is trained again: {error}", stacklevel=3)
        return None
    if record.estimator == detector.estimator_name:
        now = {
            "network": detector.network_settings(train).model_dump(mode="json"),
            "training": detector.training_settings(len(train), train.n_anomalous).model_dump(mode="json"),
            **data.model_dump(mode="json"),
        }
        differences = list_changes({"network": record.network, "training": record.training, **dict(record.data)}, now)
        if not differences and (record.data.split, record.data.source_fingerprint) != (
            data.split,
            data.source_fingerprint,
        ):
            differences = ["other recordings or another split"]
        if isinstance(detector, Diagnoser) and detector.chosen_members != record.decided_by:
            if (detector.chosen_members, record.decided_by) == ("committee", "trees") and not differences:
                return None  # kept when this run was interrupted
            differences.append(f"{setting_name('members', detector.chosen_members)} instead of {record.decided_by}")
    else:
        differences = [f"{option_name('model', detector.estimator_name)} instead of {record.estimator}"]
    if differences:
        raise DfstransError(
            f"expected the settings and recordings of the finished model in {out}, got {', '.join(differences)}; use "
            f"the same ones, choose another {option_name('out')}, or train without {option_name('resume')} to replace "
            "the model"
        )
    remedy = f"nothing to resume; train without {option_name('resume')} to repeat it"
    others = [
        f"{name} {record.versions.get(name, 'unknown')} instead of {version}"
        for name, version in library_versions().items()
        if record.versions.get(name) != version
    ]
    if others:
        warnings.warn(
            f"the model in {out} has the settings and recordings of this run, but comes from other versions "
            f"({', '.join(others)}), which may give different weights: {remedy} with these",
            stacklevel=3,
        )
    else:
        warnings.warn(f"the model in {out} is the result of this run: {remedy}", Note, stacklevel=3)
    return type(detector).load(out)


def save_again(detector: EpisodeClassifier, folder: Path) -> None:
    """Replace a saved model by the same detector, which has learned more; logs for TensorBoard stay with it."""
    check_place(folder)
    with atomic_write(folder) as temporary:
        detector.save(temporary)
        if (folder / TENSORBOARD).exists():
            shutil.copytree(folder / TENSORBOARD, temporary / TENSORBOARD)


def _move_aside(partial: Path) -> None:
    """Rename the folder of an interrupted run, so that a new run does not destroy it; only the latest is kept."""
    if not partial.is_dir():
        return
    old = _set_aside(partial)
    shutil.rmtree(old, ignore_errors=True)
    partial.rename(old)
    warnings.warn(
        f"moved an unfinished run to {old}; to continue it, rename that folder to {partial} and train with its "
        f"settings and {option_name('resume', True)}",
        stacklevel=3,
    )


def _set_aside(partial: Path) -> Path:
    return partial.with_name(partial.name + ".old")


# ---- evaluate -----------------------------------------------------------------------------------------------------


def trained_from(detector: EpisodeClassifier, episodes: Episodes) -> bool:
    """Return whether the parts of a model were split from these episodes; reads all of them."""
    expected = detector.data_.source_fingerprint
    return expected is not None and expected == episodes.fingerprint()


def part_of(detector: EpisodeClassifier, episodes: Episodes, part: Part) -> Episodes:
    """Return all episodes, or one part of the split the model was trained on."""
    record, same_set = detector.data_, trained_from(detector, episodes)
    if part == "all":
        if same_set:
            warnings.warn(
                f"these are the episodes the model was trained from, and {option_name('part', 'all')} includes its "
                f"training part, so the metrics are optimistic; use {option_name('part', 'test')} (the parts are "
                f"{', '.join(PARTS)} and all)",
                stacklevel=2,
            )
        return episodes
    if not same_set or record.split is None:
        raise DfstransError(
            f"expected the same episodes as in training for {option_name('part', part)}, got others; "
            f"evaluate all of these ({option_name('part', 'all')}), or give the training recordings, read with the "
            "same options"
        )
    if part in detector.parts_:
        return select_ids(episodes, detector.parts_[part])
    return episodes.split(record.split["seed"], by_group=record.split["kind"] == "grouped")[PARTS.index(part)]


def evaluate_diagnoses(
    detector: EpisodeClassifier,
    tested: Episodes,
    train: Episodes | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Compare the diagnoses of detected anomalies with their known causes; see `diagnosis.metrics.assessment`.

    The z-scores are learned from the normal episodes of `train` if given, else from the tested ones.
    """
    if not isinstance(detector, Diagnoser):
        raise DfstransError(
            f"expected a model of the kind {DFSTRANS!r} for diagnoses, got {detector.estimator_name!r}, which detects "
            f"anomalous episodes but cannot explain them; evaluate it without {option_name('diagnosis')}"
        )
    tested = detector.check_input(tested)
    reference = tested if train is None else detector.check_input(train)
    normal = reference[reference.require_labels() == 0]
    anomalous = tested[tested.require_labels() == 1]
    diagnoses = track(detector.diagnose(anomalous, trust=True), "diagnosing", len(anomalous), progress)
    return assess(detector, detector.reference_, diagnoses, anomalous, normal, progress, detector.tree_reference_)


# ---- predict ------------------------------------------------------------------------------------------------------


def predict_table(detector: EpisodeClassifier, episodes: Episodes) -> pd.DataFrame:
    """Return one row per episode: id, anomaly probability, decision, logit before calibration, verdict and novelty."""
    logits, novelty = detector.decision_function(episodes), detector.novelty(episodes)
    probabilities = detector.calibration_.probabilities(logits)
    anomalous = probabilities >= detector.thresholds(detector.check_input(episodes))
    return pd.DataFrame(
        {
            "episode_id": episodes.ids,
            "probability": probabilities,
            "anomalous": anomalous.astype(int),
            "raw_logit": logits,
            "verdict": verdicts(anomalous, novelty),
            "novelty": novelty,
        }
    )


def select_ids(episodes: Episodes, ids: Sequence[str]) -> Episodes:
    """Return the episodes with these ids, in this order."""
    rows = {str(name): row for row, name in enumerate(episodes.ids)}
    unknown = [name for name in ids if name not in rows]
    if unknown:
        some = ", ".join(list(rows)[:5])
        raise DfstransError(
            f"expected ids of the {len(rows)} episodes (such as {some}), got {', '.join(unknown)}; correct them"
        )
    return episodes[[rows[name] for name in ids]]


NAMED = 10  # maximum number of episodes in a remark


class Scorable(NamedTuple):
    """The episodes that can be scored, and the skipped ones with `id` and `reason`, for JSON."""

    episodes: Episodes
    skipped: list[dict[str, str]]


def scorable(
    detector: EpisodeClassifier, episodes: Episodes, remark: Callable[[str], None], *, every: bool = False
) -> Scorable:
    """Skip the episodes that are too short or too long for the detector, or have no values at all.

    A remark lists them with the reasons. With `every`, or if none is left, they raise an error.
    """
    reasons = {**_unsuitable_lengths(detector, episodes), **without_values(episodes, detector.sensors_)}
    if not reasons:
        return Scorable(episodes, [])
    if every or len(reasons) == len(episodes):
        raise DfstransError(reasons[min(reasons)])
    rows = sorted(reasons)
    named = [str(episodes.ids[row]) for row in rows]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    remark(f"skipped {len(named)} of {len(episodes)} episodes: {', '.join(named[:NAMED])}{more}")
    first_of_each = {reasons[row].split(", got")[0]: reasons[row] for row in reversed(rows)}
    for reason in first_of_each.values():
        remark(f"  {reason}")
    skipped = [{"id": str(episodes.ids[row]), "reason": reasons[row]} for row in rows]
    return Scorable(episodes[np.setdiff1d(np.arange(len(episodes)), rows)], skipped)


def _unsuitable_lengths(detector: EpisodeClassifier, episodes: Episodes) -> dict[int, str]:
    """Return the reason why the length of an episode is unsuitable, by row; each suitable length is tried once."""
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
