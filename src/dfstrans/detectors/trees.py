"""Extra-trees on simple statistics of each sensor, which they also compare with the machine's own baseline [ADR 25]."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from dfstrans.data.baselines import MIN_RECORDINGS
from dfstrans.data.conversion import join
from dfstrans.data.coupling import Coupling
from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import require_interval
from dfstrans.data.readers.cutting import origins
from dfstrans.data.segments import check_segment_length, tenth_of_episode
from dfstrans.data.statistics import Statistics, episode_statistics
from dfstrans.data.suitability import Suitability, assess_baseline
from dfstrans.detectors.base import EpisodeClassifier, SingleStepClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.errors import DfstransError, Note, counted, list_few, option_name, reading_option_name
from dfstrans.model.machine_trees import MachineTrees
from dfstrans.settings import DetectorSettings, Members
from dfstrans.training import processes
from dfstrans.training.calibration import positive_weight
from dfstrans.training.false_alarms import FalseAlarms


class TreesSettings(DetectorSettings):
    """Number of trees, and the length of the segments whose statistics they see."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    trees: int = Field(default=300, ge=1, description="Number of trees.")
    segment_length: int | None = Field(
        default=None, ge=1, description="Points per segment; by default a tenth of the median episode, at most 100."
    )


class Commissioned(NamedTuple):
    """What commissioning found out about a machine."""

    suitability: Suitability
    alarms_before: int  # recordings that were called anomalous without this baseline
    alarms: tuple[str, ...]  # those that still are, at the threshold of the model; the most probable first
    threshold: float  # of this machine
    alarms_left: int  # at that threshold


class KnowsMachines(EpisodeClassifier):
    """A detector that compares recordings with the baseline of their machine."""

    trees_: MachineTrees | None  # None in a detector that compares no machine with itself

    @property
    def machines_(self) -> tuple[str, ...]:
        """The machines that have a baseline: those of training, and those that were commissioned."""
        return () if self.trees_ is None else self.trees_.machines

    def statistics(self, episodes: Episodes) -> Statistics:
        """Return the statistics of checked episodes: (episode, sensor, statistic)."""
        coupling = None if self.trees_ is None else self.trees_.coupling
        return episode_statistics(episodes, self.scaler_, self.network_settings_.segment_length, coupling)

    def novelty(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return how unlike training each recording is: above 1 it counts as not seen before; NaN if that is unknown.

        It is known if there are trees that learned from at least 50 recordings. A recording has been seen if at least
        five of training are like it, on the scale of its own machine if that has a baseline.

        Shape:
            (n_episodes,)
        """
        episodes = self.check_input(X)
        if self.trees_ is None or self.trees_.memory is None:
            return super().novelty(episodes)
        return self.trees_.novelty(self.statistics(episodes), episodes.groups)

    def strangest_sensor(self, episode: Episodes) -> str | None:
        """Return the sensor that makes a checked recording unlike training most; None if no single one does."""
        assert self.trees_ is not None  # whose `novelty` is known
        sensor = self.trees_.strangest_sensor(self.statistics(episode), episode.groups)
        return None if sensor is None else self.sensors_[sensor]

    def machines_without_baseline(self, X: Any) -> list[str]:  # noqa: N803
        """Return the machines of these recordings that are compared with the fleet only."""
        return sorted({*super().machines_without_baseline(X)} - {*self.machines_})

    @property
    def members_(self) -> Members:
        """Who decides in this fitted detector."""
        return "trees"

    def _stored(self) -> StoredModel:
        stored, baselines = super()._stored(), self.trees_ and self.trees_.baselines
        machines = {} if baselines is None else baselines.machines
        found = tuple((name, one.n_recordings) for name, one in machines.items())
        memory = self.trees_ and self.trees_.memory
        update = {"machines": found, "members": self.members_, "remembered": memory and len(memory.fleet.leaves)}
        return stored._replace(record=stored.record.model_copy(update=update))

    def commission(
        self,
        X: Any,  # noqa: N803
        machine: str | None = None,
        *,
        false_alarms: FalseAlarms | None = None,
        replace: bool = False,
    ) -> dict[str, Commissioned]:
        """Learn the baseline of machines from their recordings, without labels, and tell whether these suffice.

        All recordings are of `machine`, or of the machines that their groups name; a warning names those that are
        skipped, see `commissionable`. The detector is changed; save it to keep the baselines. A quarter of the
        recordings may be anomalous. With `false_alarms`, a machine on which more of these recordings would be alarms
        gets a higher threshold of its own.
        """
        episodes, skipped = self.commissionable(X, machine, replace=replace)
        if skipped:
            reasons = [f"{name} ({reason})" for name, reason in skipped.items()]
            warnings.warn(f"machines that are not commissioned: {list_few(reasons)}", Note, stacklevel=2)
        found = self._with_machines(episodes)
        statistics, groups, told = self.statistics(episodes), episodes.require_groups(), {}
        before, after = (one.calibration_.probabilities(one._checked_logits(episodes)) for one in (self, found))
        for name in map(str, np.unique(groups)):
            rows = np.flatnonzero(groups == name)
            threshold = self.threshold_.value
            if false_alarms is not None:
                threshold = false_alarms.threshold(after[rows], episodes[rows], threshold)
            in_order = _by_time(episodes[rows])
            likeliest = rows[np.argsort(-after[rows], kind="stable")]
            told[name] = Commissioned(
                assess_baseline(
                    statistics[rows if in_order is None else rows[in_order]],
                    episodes.sensors,
                    by_time=in_order is not None,
                ),
                alarms_before=int((before[rows] >= self.thresholds(episodes[rows])).sum()),
                alarms=tuple(episodes.ids[likeliest[after[likeliest] >= self.threshold_.value]].tolist()),
                threshold=threshold,
                alarms_left=int((after[rows] >= threshold).sum()),
            )
        own = {name: one.threshold for name, one in told.items() if one.threshold > self.threshold_.value}
        assert found.trees_ is not None
        assert found.trees_.baselines is not None  # as checked before
        found.trees_ = found.trees_._replace(baselines=found.trees_.baselines.with_thresholds(own))
        self.__dict__ = {**vars(found)}  # only now, so that nothing has changed after a failure
        return told

    def commissionable(
        self,
        X: Any,  # noqa: N803
        machine: str | None = None,
        *,
        replace: bool = False,
    ) -> tuple[Episodes, dict[str, str]]:
        """Return the recordings of machines that can be commissioned, and why each of the others cannot.

        The others have a baseline that is not to be replaced, or too few recordings. If no machine is left, raise an
        error.
        """
        episodes = self.check_input(X)
        require_interval(episodes, self.data_.interval, self.data_.time_unit)
        if not self.machines_:
            raise DfstransError(
                "expected a model that learned what is normal for each machine, got one that did not; train one on "
                f"at least {MIN_RECORDINGS} recordings of each machine, and name the column with the "
                f"machine ({reading_option_name('group_column', ...)})"
            )
        groups = episodes.groups if machine is None else np.full(len(episodes), machine)
        if groups is None:
            raise DfstransError(
                "expected the machine of the recordings, got neither a name nor groups; name it "
                f"({option_name('machine', ...)}), or the column that does ({reading_option_name('group_column', ...)})"
            )
        skipped = self._not_commissionable(groups, replace)
        kept = ~np.isin(groups, list(skipped))
        return dataclasses.replace(episodes, groups=groups)[kept], skipped

    def _machine_ranges(self) -> Mapping[str, npt.NDArray[np.float64]]:
        baselines = self.trees_ and self.trees_.baselines
        return {} if baselines is None else {name: one.range for name, one in baselines.machines.items()}

    def thresholds(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        """Return the lowest probability at which each episode counts as anomalous, on its machine: (n_episodes,)."""
        baselines, common = self.trees_ and self.trees_.baselines, self.threshold_.value
        if baselines is None:
            return super().thresholds(episodes)
        return baselines.thresholds(episodes.groups, len(episodes), common)

    def with_own_baselines(self, X: Any) -> Self:  # noqa: N803
        """Return a copy that compares machines without a baseline with these recordings of theirs, without labels."""
        episodes = self.check_input(X)
        unknown = self.machines_without_baseline(episodes)
        return self._with_machines(episodes[np.isin(episodes.require_groups(), unknown)]) if unknown else self

    def _with_machines(self, episodes: Episodes) -> Self:
        """Return a copy with the baselines of the machines of these episodes, from all that have enough."""
        found = copy.copy(self)
        if self.trees_ is not None:
            found.trees_ = self.trees_.with_baselines(self.statistics(episodes), episodes.groups)
        return found

    def _not_commissionable(self, groups: npt.NDArray[np.str_], replace: bool) -> dict[str, str]:
        """Return why some of these machines cannot be commissioned; raise an error if that is so for all of them."""
        names, counts = np.unique(groups, return_counts=True)
        if "" in names or not len(names):
            got = "a machine without a name" if len(names) else "none"
            raise DfstransError(f"expected recordings of machines with names, got {got}; add recordings, or the name")
        found = {}
        for name, count in zip(names.tolist(), counts.tolist(), strict=True):
            if name in self.machines_ and not replace:
                found[name] = f"known already: {option_name('replace', True)}"
            elif count < MIN_RECORDINGS:
                found[name] = f"{counted(count, 'recording')}, expected ≥ {MIN_RECORDINGS}"
        if len(found) < len(names):
            return found
        reasons = [f"{name} ({reason})" for name, reason in found.items()]
        raise DfstransError(
            f"expected a machine without a baseline and with at least {MIN_RECORDINGS} recordings, got "
            f"{list_few(reasons)}; replace baselines ({option_name('replace', True)}), choose another name "
            f"({option_name('machine', ...)}), add recordings, or cut long ones ({reading_option_name('length', ...)})"
        )


TREES = TreesSettings(n_sensors=1)  # argument defaults


@dataclass(kw_only=True, eq=False, repr=False)  # only writes the constructor
class TreesClassifier(SingleStepClassifier, KnowsMachines):
    """Extra-trees on statistics of each sensor, beside their deviation from the machine's own baseline.

    See the fields of `TreesSettings` and `DecisionSettings` for the arguments. The groups of the episodes name their
    machines. Training is a single step, so there is nothing to resume.
    """

    estimator_name: ClassVar[str] = "trees"
    network_kind = shape_kind = TreesSettings

    segment_length: int | None = None
    trees: int = TREES.trees

    def network_settings(self, episodes: Episodes) -> TreesSettings:
        """Return the complete settings for these episodes."""
        found: TreesSettings = super().network_settings(episodes)
        return found.model_copy(update={"segment_length": found.segment_length or tenth_of_episode(episodes)})

    def check_lengths(self, episodes: Episodes, network: TreesSettings) -> None:
        """Reject episodes that are shorter than a segment."""
        check_segment_length(episodes, network.segment_length or 1)

    def _train(self, task: TrainingTask) -> TrainingResult:
        self.trees_ = train_trees(task, task.network.segment_length, task.network.trees)
        return TrainingResult(odds=1.0)  # trees grow until leaves are pure, so the weight does not raise their votes

    def _learn_from_validation(self, task: TrainingTask) -> None:
        self.trees_ = train_trees(task, task.network.segment_length, task.network.trees, on_both=True)

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        assert self.trees_ is not None  # as always here
        return self.trees_.logits(self.statistics(episodes), episodes.groups)

    def _weights(self) -> Weights:
        assert self.trees_ is not None
        return {name: torch.from_numpy(array.copy()) for name, array in self.trees_.to_arrays().items()}

    def _restore(self, stored: StoredModel) -> None:
        arrays = {name: one.numpy() for name, one in stored.weights.items()}
        self.trees_ = MachineTrees.from_arrays(arrays, tuple(name for name, _ in stored.record.machines))


def train_trees(task: TrainingTask, segment_length: int, n_trees: int, *, on_both: bool = False) -> MachineTrees:
    """Train on the training part, or on the validation part as well.

    The recordings of the validation part join the baselines either way, without a look at their labels.
    """
    return processes.on_first(lambda: _trained_trees(task, segment_length, n_trees, on_both))


def _trained_trees(task: TrainingTask, segment_length: int, n_trees: int, on_both: bool) -> MachineTrees:
    parts = (task.train, task.validation)
    normal = task.train[task.train.require_labels() == 0]
    coupling = Coupling.fit(normal, task.scaler, segment_length)
    statistics = np.concatenate([episode_statistics(part, task.scaler, segment_length, coupling) for part in parts])
    labels = np.concatenate([part.require_labels() for part in parts])
    groups = join([part.groups for part in parts])
    learned = slice(None if on_both else len(task.train))
    with warnings.catch_warnings():
        if on_both:
            warnings.simplefilter("ignore", Note)  # said when the training part was learned
        trees = MachineTrees.fit(
            statistics[learned],
            labels[learned],
            None if groups is None else groups[learned],
            weight=positive_weight(labels[learned], task.training),
            trees=n_trees,
            seed=task.training.seed,
            threads=torch.get_num_threads(),  # which a comparison limits in each of its processes
            coupling=coupling,
        )
    trees = trees.with_baselines(statistics, groups)
    if not on_both:
        return trees
    ids, lengths = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "lengths"))
    return trees.with_memory(statistics, groups, origins(ids, lengths))


def _by_time(episodes: Episodes) -> npt.NDArray[np.intp] | None:
    """Return the order of recordings in time; None if it is unknown."""
    if episodes.starts is not None and not np.isnat(episodes.starts).any():
        return np.argsort(episodes.starts, kind="stable")
    recording, first, _ = origins(episodes.ids, episodes.lengths).T
    return np.argsort(first, kind="stable") if len(set(recording.tolist())) == 1 else None  # pieces of one recording
