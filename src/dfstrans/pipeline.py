"""What the command line does, as functions: train a model from episodes, evaluate it, predict with it."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from dfstrans.artifact import check_place, holds_model, library_versions, read_record
from dfstrans.baselines.registry import detector_kind
from dfstrans.config import DFSTRANS
from dfstrans.data.episodes import Episodes
from dfstrans.data.segments import looks_transposed
from dfstrans.data.splits import SplitKind
from dfstrans.diagnoser import Diagnoser
from dfstrans.diagnosis.nearest import NormalRecordings
from dfstrans.diagnosis.raw import raw_numbers
from dfstrans.errors import DfstransError, Remark, spelled
from dfstrans.estimator import EpisodeClassifier
from dfstrans.figure_folder import FigureFolder
from dfstrans.files import filled_at_once, written_atomically
from dfstrans.inputs import match_sensors, require_both_classes
from dfstrans.progress import Progress, no_progress, told
from dfstrans.report.diagnosis_page import page_name, write_diagnosis, write_index, write_script
from dfstrans.report.views import Recording
from dfstrans.training.log import TENSORBOARD
from dfstrans.training.run_folder import can_resume

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

    `model` is a kind of detector, see `dfstrans.baselines.MODELS`, and `settings` are its arguments. Until the model is
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
    remedy = f"nothing to go on with; train without {spelled('resume')} to repeat it"
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
            f"that an episode is anomalous but not why; evaluate it without {spelled('diagnosis')}"
        )
    tested = detector.check_input(tested)
    reference = tested if train is None else detector.check_input(train)
    normal = reference[reference.require_labels() == 0]
    anomalous = tested[tested.require_labels() == 1]
    diagnoses = told(detector.diagnose(anomalous, trust=True), "diagnosing", len(anomalous), progress)
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
                f"these are the episodes the model was trained from, and {spelled('part', 'all')} includes those "
                f"it was trained on, so the figures flatter; use {spelled('part', 'test')} (the parts are "
                f"{', '.join(PARTS)} and all)",
                stacklevel=2,
            )
        return episodes
    if not same_set or record.split is None:
        raise DfstransError(
            f"expected the very episodes that the model was trained from, for {spelled('part', part)}, got others; "
            f"evaluate all of these ({spelled('part', 'all')}), or give the recordings of training, read with the same "
            "options"
        )
    cut = episodes.split(record.split["seed"], by_group=record.split["kind"] == "grouped")
    if part != "test" and cut[0].fingerprint() != record.train_fingerprint:
        raise DfstransError(
            f"expected the parts that the model was trained with, for {spelled('part', part)}, got others, since "
            "versions of before cut some sets otherwise, but for the test part; train again, or take "
            f"{spelled('part', 'test')}"
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


def diagnose_table(
    detector: Diagnoser,
    episodes: Episodes,
    out: Path | None = None,
    *,
    pages: Path | None = None,
    figures: Path | None = None,
    beside: Episodes | None = None,
    keep_normal: bool = False,
    trust: bool = True,
    raw: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Diagnose the episodes that are called anomalous, or all, as plain data; also a CSV table of every cell at `out`.

    `pages` is a file for the page of a single episode, or a folder for one page each and an index; `figures` a folder
    for figures in print quality. In both, an episode is drawn beside the one of `beside` that is labelled normal and
    most like it. With `raw` the data hold every score, too. One episode at a time is in memory, however many there are.
    """
    found: list[dict[str, Any]] = []
    script = write_script(pages) if pages is not None and pages.suffix != ".html" else None
    recordings = recordings_of(detector, episodes, beside) if pages is not None or figures is not None else None
    with ExitStack() as stack:
        temporary = None if out is None else stack.enter_context(written_atomically(out))
        prints = None if figures is None else FigureFolder(stack.enter_context(filled_at_once(figures)), detector)
        for row, diagnosis in enumerate(detector.diagnose(episodes, trust=trust)):
            advance(1)
            if not (diagnosis.is_anomaly or keep_normal):
                continue
            if recordings is not None:
                recording = recordings(row)
                if pages is not None:
                    write_diagnosis(_page(pages, diagnosis.episode_id), diagnosis, recording, script)
                if prints is not None:
                    prints.add(diagnosis, recording)
            if temporary is not None:
                diagnosis.to_frame().to_csv(temporary, mode="a", header=not found, index=False)
            found.append({**diagnosis.to_dict(), **({"raw": raw_numbers(diagnosis)} if raw else {})})
        if temporary is not None and not found:
            temporary.write_text("")
        if prints is not None:
            prints.add_comparisons(episodes)
    if pages is not None and script is not None:
        write_index(pages / "index.html", found)
    return found


def recordings_of(
    detector: Diagnoser, episodes: Episodes, beside: Episodes | None = None
) -> Callable[[int], Recording]:
    """A function from an episode's row to what its pictures need."""
    normal = None
    if beside is not None:
        alike = match_sensors(beside, detector.sensors_)  # of any length: one that cannot be scored does no harm here
        normal = NormalRecordings.of(alike, detector.scaler_, detector.network_settings_.segment_length)

    def recording(row: int) -> Recording:
        (episode,) = detector.check_input(episodes[row])
        nearest = None if normal is None else normal.nearest(episode)
        return Recording(episode, episodes.interval, detector.units_, nearest, episodes.time_unit)

    return recording


def _page(pages: Path, episode_id: str) -> Path:
    """Where the page of an episode is: the file itself, or a file of its name in the folder."""
    return pages if pages.suffix == ".html" else pages / page_name(episode_id)


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
