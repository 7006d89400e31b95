"""Early warning: decisions on recordings that are still running, from their prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from dfstrans.data.episodes import Episodes
from dfstrans.data.splits import MIN_PER_CLASS
from dfstrans.errors import DfstransError, option_name
from dfstrans.files import atomic_write
from dfstrans.progress import Progress, no_progress, track
from dfstrans.settings import Settings
from dfstrans.training.calibration import false_alarm_threshold
from dfstrans.training.evaluation import Labels, Scores, average_precision, evaluate_probabilities

FILE = "early.json"
STEPS = 10  # at most: shares of a typical recording after which it may be called anomalous
ENOUGH = 0.95  # of the F1 of whole recordings


class Step(Settings):
    """What is known of recordings after so many points: the threshold, and how good alarms up to then are."""

    points: int
    share: float  # of a typical recording
    threshold: float
    pr_auc: float  # of the probabilities at this step
    f1: float  # of alarms at this step or before
    recall: float
    false_alarms_per_100_normal: float
    begun: float | None = None  # share of the anomalous recordings whose fault has begun, if that is known


class EarlyWarning(Settings):
    """The thresholds of early alarms by points seen, and how good these alarms are.

    False alarms up to a share s of a recording are at most s times those of decisions on whole recordings, and no
    threshold is below that of the model. Metrics are cross-fitted: each half of the recordings is judged with the
    thresholds of the other.
    """

    model: str  # checksum
    episodes: int
    anomalous: int
    typical: int  # points of a recording
    steps: list[Step]  # the last one is that of whole recordings

    @classmethod
    def measure(cls, detector: Any, model: str, episodes: Episodes, progress: Progress = no_progress) -> Self:
        """Choose thresholds on labelled recordings that the model has not learned from, and measure their alarms."""
        episodes, labels = detector.check_input(episodes), episodes.require_labels()
        halves = _halves(labels)
        segment, typical = detector.network_settings_.segment_length, int(np.median(episodes.lengths))
        points = sorted({max(step * typical // STEPS // segment, 1) * segment for step in range(1, STEPS)})
        points = [*(n for n in points if n < typical), int(episodes.lengths.max())]
        found = prefix_probabilities(detector, episodes, points, progress)
        own = detector.thresholds(episodes)
        alarms = np.zeros(found.shape, dtype=np.bool_)
        for half in (halves, ~halves):
            chosen = _thresholds(found[half], labels[half], own[half])
            alarms[~half] = found[~half] >= np.maximum(chosen, own[~half, np.newaxis])
        alarms = np.logical_or.accumulate(alarms, axis=1)
        thresholds = _thresholds(found, labels, own)
        steps = []
        for n, threshold, probabilities, alarmed in zip(points, thresholds, found.T, alarms.T, strict=True):
            metrics = evaluate_probabilities(labels, alarmed.astype(np.float64), 0.5)
            steps.append(
                Step(
                    points=n,
                    share=min(n / typical, 1.0),
                    threshold=threshold,
                    pr_auc=average_precision(labels, probabilities),
                    begun=_begun(episodes, n),
                    **{name: getattr(metrics, name) for name in ("f1", "recall", "false_alarms_per_100_normal")},
                )
            )
        return cls(model=model, episodes=len(labels), anomalous=int(labels.sum()), typical=typical, steps=steps)

    @property
    def enough(self) -> Step:
        """The first step whose F1 is at least 95 % of the last one's."""
        return next(step for step in self.steps if step.f1 >= ENOUGH * self.steps[-1].f1)

    def threshold(self, before: int, points: int) -> float | None:
        """Return the threshold of the last step after `before` up to `points`; None if there is none between them."""
        passed = [step.threshold for step in self.steps[:-1] if before < step.points <= points]
        return passed[-1] if passed else None

    def save(self, folder: Path) -> Path:
        """Write the thresholds and metrics as JSON."""
        with atomic_write(folder / FILE) as temporary:
            temporary.write_text(self.model_dump_json(indent=2), encoding="utf-8")
        return folder / FILE

    @classmethod
    def load(cls, path: Path, model: str) -> Self:
        """Read what `save` wrote for this model."""
        path = path / FILE if path.is_dir() else path
        try:
            found = cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            raise DfstransError(
                f"expected thresholds of early alarms in {path}, got none ({str(error).splitlines()[0]}); compute "
                f"them: dfstrans evaluate MODEL DATA {option_name('early', ...)}"
            ) from error
        if found.model != model:
            raise DfstransError(
                f"expected thresholds of early alarms of the model {model}, got those of {found.model} in {path}; "
                f"compute them anew: dfstrans evaluate MODEL DATA {option_name('early', ...)}"
            )
        return found


def prefixes(episodes: Episodes, points: int) -> Episodes:
    """Return the first points of each recording, as if it were still running; shorter ones stay whole."""
    episodes = episodes.load()
    return replace(
        episodes,
        values=np.asarray(episodes.values)[..., :points],
        lengths=np.minimum(episodes.lengths, points),
        faults=None,
        truth=None,
    )


def prefix_probabilities(
    detector: Any, episodes: Episodes, points: Sequence[int], progress: Progress = no_progress
) -> Scores:
    """Return the anomaly probability of each recording after so many points; shorter recordings are whole.

    Shape:
        (n_episodes, len(points))
    """
    steps = track(points, "prefixes", len(points), progress)
    return np.stack([detector.predict_proba(prefixes(episodes, n))[:, 1] for n in steps], axis=1)


def _halves(labels: Labels) -> npt.NDArray[np.bool_]:
    """Mark every other episode of each class."""
    smallest = min(int(labels.sum()), int(len(labels) - labels.sum()))
    if smallest < 2 * MIN_PER_CLASS:
        raise DfstransError(
            f"expected at least {2 * MIN_PER_CLASS} normal and as many anomalous episodes for thresholds of early "
            f"alarms, got {len(labels) - int(labels.sum())} and {int(labels.sum())}; give more labelled recordings"
        )
    marked = np.zeros(len(labels), dtype=np.bool_)
    for label in (0, 1):
        marked[np.random.default_rng(0).permutation(np.flatnonzero(labels == label))[::2]] = True
    return marked


def _begun(episodes: Episodes, points: int) -> float | None:
    """Return in how many anomalous recordings a fault has begun before this point, as a share; None if unknown."""
    rows = np.flatnonzero(episodes.require_labels())
    known = [episodes.known_faults[row] for row in rows]
    return float(np.mean([min(one.start for one in faults) < points for faults in known])) if all(known) else None


def _thresholds(probabilities: Scores, labels: Labels, own: Scores) -> list[float]:
    """Return a threshold for each step; the last is at least that of the model.

    The false alarms that whole recordings cause at the thresholds of the model are spread evenly over the steps.
    """
    normal, least = probabilities[labels == 0], float(own.min())
    allowed = int((normal[:, -1] >= own[labels == 0]).sum())
    alarmed = np.zeros(len(normal), dtype=np.bool_)
    found = []
    for step in range(probabilities.shape[1] - 1):
        left = normal[~alarmed, step]
        share = max(allowed * (step + 1) // probabilities.shape[1] - int(alarmed.sum()), 0) / len(left)
        found.append(max(false_alarm_threshold(left, share).value, least))
        alarmed |= normal[:, step] >= found[-1]
    return [*found, least]
