"""Train on injected faults, and measure detection and diagnosis by kind and strength."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.workflow import select_ids, train_model
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.metrics.assessment import SHOWN, Z_SCORE, assess
from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.injection.injecting import (
    MARK,
    TRIALS_FILE,
    VERSION,
    Injection,
    inject_each,
    require_replaceable,
    save_injection,
)
from dfstrans.lab.injection.settings import KINDS, THRESHOLD, InjectionSettings
from dfstrans.progress import Progress, no_progress
from dfstrans.training.evaluation import ChanceCheck, evaluate_probabilities


class Metric(NamedTuple):
    """A diagnosis metric: its mean, its value by chance, a 95 % interval, and the floor set by simple statistics."""

    value: float | None
    chance: float | None
    low: float | None
    high: float | None
    floor: float | None


def share_interval(share: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share of n episodes.

    >>> [tuple(round(end, 2) for end in share_interval(*given)) for given in ((1.0, 2), (0.0, 7), (0.5, 20))]
    [(0.34, 1.0), (0.0, 0.35), (0.3, 0.7)]
    """
    interval = binomtest(round(share * n), n).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class ConditionResult:
    """Detection of the faults of one kind and strength, and diagnosis of the detected ones.

    Areas under curves are against the same normal episodes for every kind and strength. `diagnosis` has the metrics
    `sensor_hit_rate`, `sensor_ac_at_3` and `segment_hit`; it is empty if nothing was detected. Undefined values are
    None.
    """

    kind: str
    strength: float
    unit: str
    episodes: int
    detected: int
    recall: float | None
    roc_auc: float | None
    pr_auc: float | None
    diagnosis: dict[str, Metric]

    @property
    def shown_strength(self) -> str:
        """The strength with its unit."""
        return KINDS[self.kind].shown(self.strength)

    def value(self, name: str) -> float | None:
        """A metric of detection or diagnosis by name."""
        if name in ("recall", "roc_auc", "pr_auc"):
            found: float | None = getattr(self, name)
            return found
        return self.diagnosis[name].value if name in self.diagnosis else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with a 95 % interval of the recall."""
        low, high = (None, None) if self.recall is None else share_interval(self.recall, self.episodes)
        found = {name: metric._asdict() for name, metric in self.diagnosis.items()}
        return {**dataclasses.asdict(self), "recall_low": low, "recall_high": high, "diagnosis": found}


@dataclass(frozen=True)
class StudyResult:
    """Results for all kinds and strengths, with the test set and the detector.

    `threshold_note` says how the threshold was chosen, `chance_check` whether the detector is better than chance.
    """

    statements: tuple[str, ...]
    training_episodes: int
    training_injected: int
    epochs: int
    normal_tested: int
    false_alarms_per_100_normal: float
    threshold: float
    threshold_note: str
    chance_check: ChanceCheck
    sensors: int
    split: str
    settings: dict[str, Any]
    conditions: tuple[ConditionResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        content = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            **content,
            "statements": list(self.statements),
            "chance_check": self.chance_check._asdict(),
            "conditions": [condition.to_dict() for condition in self.conditions],
        }


MAX_NORMAL = 400  # normal training episodes for the floor
METRICS = {  # name in the results → level and name in the assessment
    "sensor_hit_rate": ("sensors", "hit_rate@100%"),
    "sensor_ac_at_3": ("sensors", "ac@3"),
    "segment_hit": ("segments", "rc_top_1"),
}


def study_settings(preset: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The training settings of a study, from those that were given."""
    threshold = {} if "threshold_rule" in settings else THRESHOLD
    return {"preset": preset, "mixup": 0.0, **threshold, **settings}  # mixed episodes resemble injected faults


def study_paths(data: Path, out: Path | None, report: Path | None) -> tuple[Path, Path | None]:
    """The paths of the injected set and of the report; with `out` alone there is no report.

    Paths that would overwrite something are refused before anything is read.
    """
    if out is None:
        report = report or Path(f"{data.resolve().name.split('.')[0]}_study")
        place = report / "injected.h5"
    elif out.suffix.lower() in (".h5", ".hdf5"):
        place = out
    else:
        raise DfstransError(f"expected {option_name('out')} to end in .h5 or .hdf5, got {out}; rename the file")
    if report is not None and report.exists() and not report.is_dir():
        raise DfstransError(
            f"expected a folder for {option_name('report')}, got the file {report}; choose another path"
        )
    for path in [place] if report is None else [place, report / TRIALS_FILE]:
        require_replaceable(path)
        if path.resolve() == data.resolve():  # injected faults again
            raise DfstransError(f"expected a path other than that of the recordings, got {path}; choose another one")
    return place, report


def run_study(
    injection: Injection,
    injected: Episodes,
    folder: Path,
    settings: InjectionSettings,
    *,
    read: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **training: Any,
) -> StudyResult:
    """Train on the injected set into `folder`/model, then test each kind and strength in unseen normal episodes.

    `injected` are its episodes. It is split by group, so that an episode and its copies stay in one part. The
    normal episodes of the test part are tested without a fault, and some with each kind and strength
    (`folder`/trials.h5). The model remembers `read`, the options of the recordings. `resume` continues an interrupted
    training and keeps a finished one.
    """
    require_replaceable(folder / TRIALS_FILE)
    show = no_progress if progress is None else progress
    place = folder / "model"
    detector = train_model(
        Diagnoser.from_settings(**training),
        injected,
        place,
        split="grouped",
        read=read,
        resume=resume,
        progress=progress is not None,
    )
    seed = detector.training_settings_.seed
    train, test_ids = select_ids(injected, detector.parts_["train"]), set(detector.parts_["test"])
    unseen = injection.source[[name in test_ids for name in injection.source.ids.tolist()]]
    conditions = [condition for condition in settings.conditions if len(injection.normal.suited(condition[0]))]
    tried = unseen[np.random.default_rng(seed).permutation(len(unseen))[: settings.trials]]
    with show("injecting trials", len(conditions) * len(tried)) as advance:
        trials = inject_each(tried, conditions, injection.normal, settings, advance)
        save_injection(trials, folder / TRIALS_FILE, {MARK: VERSION, "trials_of": injected.fingerprint()})
    episodes = load_episodes(folder / TRIALS_FILE)
    normal = detector.predict_proba(unseen)[:, 1]
    reference = train[train.require_labels() == 0][:MAX_NORMAL]
    condition_of = [(fault.kind, fault.strength) for fault in trials.faults if fault is not None]
    results = []
    with show("detecting and diagnosing", len(condition_of)) as advance:
        for condition in conditions:
            rows = [row for row, other in enumerate(condition_of) if other == condition]
            results.append(_condition_result(condition, episodes[rows], detector, normal, reference, advance))
    return StudyResult(
        statements=injection.statements + trials.statements,
        training_episodes=detector.data_.train_episodes,
        training_injected=detector.data_.train_anomalous,
        epochs=len(detector.log_),
        normal_tested=len(unseen),
        false_alarms_per_100_normal=100 * float(np.mean(normal >= detector.threshold_.value)),
        threshold=detector.threshold_.value,
        threshold_note=detector.threshold_.note,
        chance_check=detector.chance_check,
        sensors=len(injected.sensors),
        split="by group" if injection.by_group else "by source episode",
        settings=settings.model_dump(mode="json"),
        conditions=tuple(results),
    )


def _condition_result(
    condition: tuple[str, float],
    trials: Episodes,
    detector: Diagnoser,
    normal: np.ndarray[Any, np.dtype[np.float64]],
    reference: Episodes,
    advance: Callable[[int], None],
) -> ConditionResult:
    """Detect and diagnose trials of one kind and strength; `normal` are the probabilities of normal episodes."""
    kind, strength = condition
    diagnoses = [] if len(trials) == 0 else list(_counted(detector.diagnose(trials, trust=True), advance))
    probabilities = np.array([diagnosis.probability for diagnosis in diagnoses])
    labels = np.repeat(np.array([0, 1], dtype=np.int8), [len(normal), len(probabilities)])
    evaluation = evaluate_probabilities(labels, np.concatenate([normal, probabilities]), detector.threshold_.value)
    detected = sum(diagnosis.is_anomaly for diagnosis in diagnoses)
    found: dict[str, Metric] = {}
    if detected and len(reference) >= 2:
        assessment = assess(detector, detector.reference_, diagnoses, trials, reference, trees=detector.tree_reference_)
        found = {name: assessed_metric(assessment, *where) for name, where in METRICS.items()}
    return ConditionResult(
        kind=kind,
        strength=strength,
        unit=KINDS[kind].unit,
        episodes=len(diagnoses),
        detected=detected,
        recall=evaluation.recall,
        roc_auc=evaluation.roc_auc,
        pr_auc=evaluation.pr_auc,
        diagnosis=found,
    )


def assessed_metric(assessment: dict[str, Any], level: str, name: str) -> Metric:
    """A metric of the shown ranking over all kinds of an assessment, with the floor."""
    shown = assessment["rankings"][SHOWN][level]["all"][name]
    floor = assessment["rankings"][Z_SCORE][level]["all"][name]
    return Metric(shown["value"], shown["chance"], *_interval(shown), floor["value"])


def _interval(shown: dict[str, Any]) -> tuple[float | None, float | None]:
    """The interval of a share, as an episode has one faulty sensor and window; no width if chance is always right."""
    if shown["value"] is None or shown["chance"] == 1:
        return shown["low"], shown["high"]
    return share_interval(shown["value"], shown["n_episodes"])


def _counted(diagnoses: Iterator[Diagnosis], advance: Callable[[int], None]) -> Iterator[Diagnosis]:
    for diagnosis in diagnoses:
        advance(1)
        yield diagnosis
