"""`Diagnoser`: a committee of the DFStrans network and trees, or one of them, that detects and diagnoses anomalies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt
import torch

from dfstrans.data.baselines import Baselines
from dfstrans.data.coupling import Coupling
from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import require_finite_logits, warn_of_silent_sensors
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import (
    MOST_WIDTH,
    count_segments,
    default_filters,
    default_segment_length,
    default_width,
)
from dfstrans.data.statistics import episode_statistics
from dfstrans.detectors.base import EpisodeClassifier, TrainingResult, TrainingTask, Weights
from dfstrans.detectors.early import prefix_probabilities
from dfstrans.detectors.network import NetworkClassifier
from dfstrans.detectors.parameters import describe_arguments
from dfstrans.detectors.saved_model import StoredModel
from dfstrans.detectors.trees import KnowsMachines, TreesSettings, train_trees
from dfstrans.diagnosis.diagnose import KnownCases, diagnose
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.habits import Arrays
from dfstrans.diagnosis.inspection import Decision
from dfstrans.diagnosis.reference import NormalReference
from dfstrans.diagnosis.schema import BaselineUsed, Member
from dfstrans.diagnosis.tree_reference import TreeReference
from dfstrans.errors import DfstransError, did_you_mean
from dfstrans.model.encoding import check_fits
from dfstrans.model.fast import FastDFSTrans
from dfstrans.model.machine_trees import MachineTrees
from dfstrans.model.network import DFSTrans, ForwardPass
from dfstrans.settings import (
    DFSTRANS,
    PRESETS,
    Encoding,
    Members,
    NetworkSettings,
    NetworkShape,
    Precision,
    Preset,
    Settings,
    setting_name,
)
from dfstrans.training.committee import COMMITTEE, TREES, Committee, MemberLogits, choose_share
from dfstrans.training.evaluation import Evaluation, Labels, Scores, average_precision, evaluate_probabilities

COMMITTEE_TREES = TreesSettings(n_sensors=1).trees
KNOWN_FEATURES = "known_cases.features"  # name of an array in the reference
NETWORK = NetworkSettings()  # argument defaults


@describe_arguments
@dataclass(kw_only=True, eq=False, repr=False)
class Diagnoser(NetworkClassifier, KnowsMachines):
    """Detects anomalous episodes, and shows which sensors deviate from normal, and when.

    By default, the network and trees that compare each machine with itself decide together, with weights from the
    validation part; the network explains the decision, or the trees if only they call a recording anomalous. Trees
    alone are trained in seconds; they show which sensors deviate and when, but have no attention.

    Arguments that are None take the value of the preset, or are chosen from the training episodes.

    Parameters:
        preset: Base settings: "tuned" (our network), or "paper" (the paper's network and training).
        members: Who decides: "committee" (network and trees), "network" or "trees"; the preset "paper" has the network
            alone.
        {settings}
        network: All other settings of the network, as a mapping or a `NetworkSettings`.
        training: All other settings of training, as a mapping or a `TrainingSettings`.

    >>> from dfstrans.data.synthetic import planted_episodes
    >>> episodes = planted_episodes(n_normal=12, n_anomalous=6, n_sensors=3, n_timepoints=48, seed=0)
    >>> detector = Diagnoser(segment_length=16, epochs=1, network={"heads": 2, "feedforward": 16}).fit(episodes)
    >>> detector.predict_proba(episodes).shape
    (18, 2)
    """

    estimator_name: ClassVar[str] = DFSTRANS
    network_kind: ClassVar[type[Settings]] = NetworkSettings
    shape_kind: ClassVar[type[Settings]] = NetworkShape

    preset: Preset = "tuned"
    members: Members | None = None
    segment_length: int | None = None
    encoding: Encoding = NETWORK.encoding

    network_: DFSTrans = field(init=False)  # absent if trees decide alone
    committee_: Committee | None = field(init=False)  # None if one member decides alone
    reference_: NormalReference | TreeReference = field(init=False)
    tree_reference_: TreeReference | None = field(init=False)  # of the trees of a committee
    known_cases_: KnownCases = field(init=False)

    @staticmethod
    def build(network: NetworkShape, scaler: SensorScaler) -> DFSTrans:
        """Build a network of this shape with weights from torch's random generator."""
        return FastDFSTrans(network)

    def network_settings(self, episodes: Episodes) -> NetworkShape:
        """Return the shape of the network that fit would build for these episodes."""
        given: NetworkSettings = self._settings(NetworkSettings)
        values = given.model_dump() | {"n_sensors": episodes.n_sensors}
        size = "width" if given.embedding == "statistics" else "filters"
        if given.segment_length is None:
            any_length = {"segment_length": 1 << 20, "heads": 1}
            if size == "width":
                any_length["width"] = given.width or MOST_WIDTH
            values["segment_length"] = default_segment_length(episodes, NetworkShape(**values | any_length))
        if values[size] is None:
            choose = default_width if size == "width" else default_filters
            values[size] = choose(episodes, NetworkShape(**values | {"heads": 1}), given.heads)
        return NetworkShape(**values)

    # ---- the committee ------------------------------------------------------------------------------------------

    def _train(self, task: TrainingTask) -> TrainingResult:
        self.committee_ = self.trees_ = None
        if self.chosen_members == "network":
            result = super()._train(task)
            self._weigh_readings(task.validation)
            return result
        segment_length, labels = task.network.segment_length, task.validation.require_labels()
        trees = train_trees(task, segment_length, COMMITTEE_TREES)
        if self.chosen_members == "trees":
            self.trees_ = trees
            return TrainingResult(odds=1.0)
        statistics = episode_statistics(task.validation, task.scaler, segment_length, trees.coupling)
        votes, on_fleet = (trees.logits(statistics, groups) for groups in (task.validation.groups, None))
        if task.on_first is not None:
            task.on_first(self._trees_alone(task, trees))
        if task.progress:
            print(_first_result(labels, votes, kept=task.on_first is not None), file=sys.stderr)
        self.trees_ = trees  # the network compares with the same baselines
        result = super()._train(task)
        self._weigh_readings(task.validation)
        parts = (task.validation, replace(task.validation, groups=None))
        network, alone = (super(Diagnoser, self)._logits(part).astype(np.float64) for part in parts)
        self.committee_ = Committee.choose(
            labels,
            MemberLogits(network, votes),
            MemberLogits(alone, on_fleet),
            network_odds=result.odds,
            training_anomalies=int(task.train.require_labels().sum()),
        )
        return result._replace(odds=1.0)  # the members are calibrated

    def _weigh_readings(self, validation: Episodes) -> None:
        """Choose the share of the head that sees a summary over all sensors: on machines never seen, it is better."""
        network = self.network_
        if network.summary is None:
            return
        found = []
        with torch.inference_mode():
            for batch in self.batches(validation):
                x = network.embed(batch.segments, batch.valid, batch.baseline)
                found.append(torch.stack(network.readings(x, batch.valid), dim=1).double().numpy())
        of_sensors, of_summary = np.concatenate(found).T
        share = choose_share(validation.require_labels(), of_summary, of_sensors, prior=0.5)
        network.summary.share.fill_(share)

    def _baselines(self) -> Baselines | None:
        return None if self.trees_ is None else self.trees_.baselines

    def _coupling(self, task: TrainingTask) -> Coupling | None:
        if not task.network.machine_features:
            return None
        if self.trees_ is not None:
            return self.trees_.coupling
        normal = task.train[task.train.require_labels() == 0]
        return Coupling.fit(normal, task.scaler, task.network.segment_length)

    def _trees_alone(self, task: TrainingTask, trees: MachineTrees) -> Self:
        """Return the trees of a committee as a complete detector, which can be saved before the network is trained."""
        alone = type(self)(**{**self.get_params(deep=False), "members": "trees"})
        alone.network_settings_, alone.training_settings_, alone.scaler_ = task.network, task.training, task.scaler
        alone.trees_, alone.committee_ = trees, None
        alone._conclude(task, TrainingResult(odds=1.0))
        return alone

    def _learn_from_validation(self, task: TrainingTask) -> None:
        if self.trees_ is not None:
            self.trees_ = train_trees(task, task.network.segment_length, COMMITTEE_TREES, on_both=True)

    @property
    def chosen_members(self) -> Members:
        """Who decides after the next fit: `members`, or by default those of the preset."""
        return self.members or ("network" if self.preset == "paper" else "committee")

    @property
    def members_(self) -> Members:
        """Who decides in this fitted detector."""
        if self.trees_ is None:
            return "network"
        return "trees" if self.committee_ is None else "committee"

    def _logits(self, episodes: Episodes) -> npt.NDArray[Any]:
        if self.members_ == "trees":
            return self._votes(episodes)
        network = super()._logits(episodes)
        if self.committee_ is None:
            return network
        return self.committee_.logits(network, self._votes(episodes), self._compared(episodes))

    def predict_in(self, precision: Precision) -> Self:
        """Set the precision of prediction until the next fit; see `NetworkClassifier.predict_in`."""
        if self.members_ == "trees":
            return EpisodeClassifier.predict_in(self, precision)
        return super().predict_in(precision)

    def _votes(self, episodes: Episodes) -> npt.NDArray[np.float64]:
        assert self.trees_ is not None  # as always in a committee
        return self.trees_.logits(self.statistics(episodes), episodes.groups)

    def _compared(self, episodes: Episodes) -> npt.NDArray[np.bool_]:
        """Return which episodes are compared with their own machine."""
        assert self.trees_ is not None  # as always in a committee
        return self.trees_.compared(episodes.groups, len(episodes))

    def decisions(self, episodes: Episodes) -> Callable[[int, float], Decision]:
        """Return a function that decides from the row of an episode and the logit of its network."""
        committee = self.committee_
        if self.trees_ is None:
            return lambda _, logit: Decision(self.probability(logit), logit, {})
        votes, groups, compared = self._votes(episodes), episodes.groups, self._compared(episodes)
        if committee is None:
            return lambda row, _: Decision(
                self.probability(votes[row]), float(votes[row]), {}, self._baseline_of(groups, row)
            )

        def decide(row: int, logit: float) -> Decision:
            logits = np.array([logit])
            combined = committee.logits(logits, votes[[row]], compared[[row]])
            probability = float(self.calibration_.probabilities(combined)[0])
            members = {name: float(one[0]) for name, one in committee.probabilities(logits, votes[[row]]).items()}
            return Decision(probability, float(combined[0]), members, self._baseline_of(groups, row))

        return decide

    def _baseline_of(self, groups: npt.NDArray[np.str_] | None, row: int) -> BaselineUsed | None:
        if not self.machines_:
            return None
        return "own" if groups is not None and str(groups[row]) in self.machines_ else "fleet"

    def _with_machines(self, episodes: Episodes) -> Self:
        """Add what is usual for the signals of these machines, from the recordings that look normal."""
        found = super()._with_machines(episodes)
        if found.machines_ and len(episodes):
            found.reference_ = found.reference_.with_machines(found, episodes[_look_normal(found, episodes)])
        return found

    def predict_prefixes(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the anomaly probability after each segment, from the recording up to there: (episode, segment).

        NaN follows the last segment of a shorter recording.
        """
        episodes, length = self.check_input(X), self.network_settings_.segment_length
        counts = count_segments(episodes.lengths, length)
        points = [length * n for n in range(1, int(counts.max(initial=0)) + 1)]
        if not points:
            return np.empty((len(episodes), 0))
        found = prefix_probabilities(self, episodes, points)
        return np.where(np.arange(len(points)) < counts[:, np.newaxis], found, np.nan)

    def evaluate_members(self, X: Any, y: npt.ArrayLike | None = None) -> dict[str, Evaluation]:  # noqa: N803
        """Return the detection metrics of the committee and of each member by name; empty without a committee."""
        episodes, committee = self.check_input(X, y), self.committee_
        if committee is None:
            return {}
        warn_of_silent_sensors(episodes)
        network, votes = super()._logits(episodes), self._votes(episodes)
        combined = committee.logits(network, votes, self._compared(episodes))
        require_finite_logits(episodes, combined)
        found = {COMMITTEE: self.calibration_.probabilities(combined), **committee.probabilities(network, votes)}
        labels, threshold, own = episodes.require_labels(), self.threshold_.value, self.thresholds(episodes)
        return {name: evaluate_probabilities(labels, one, threshold, own) for name, one in found.items()}

    def evaluate_test(self, test: Episodes) -> None:
        """Add the metrics of the test part to those of the detector and of its members."""
        found = self.evaluate_members(test)
        if self.committee_ is None:
            super().evaluate_test(test)
            return
        self.metrics_["test"] = found.pop(COMMITTEE).to_dict()
        self.committee_ = self.committee_.with_pr_auc("test", {name: one.pr_auc for name, one in found.items()})

    def probability(self, logit: float, member: Member = "network") -> float:
        """Return the probability of a logit of this member of the committee or, without one, of the detector."""
        calibration = self.calibration_
        if self.committee_ is not None:
            calibration = self.committee_.network if member == "network" else self.committee_.trees
        return float(calibration.probabilities(np.array([logit]))[0])

    # ---- diagnose -----------------------------------------------------------------------------------------------

    def check_lengths(self, episodes: Episodes, network: NetworkShape) -> None:
        """Reject episodes that are too short or too long for the segments of a network."""
        check_fits(episodes, network, trained=network is getattr(self, "network_settings_", None))

    def diagnose(self, X: Any, *, known: Episodes | None = None, trust: bool = False) -> Iterator[Diagnosis]:  # noqa: N803
        """Yield one `Diagnosis` per episode: which sensors deviate from normal, and when.

        If kinds of faults were known in training, a diagnosis names the most similar one; `known` holds other
        anomalies of known kinds to use instead. With `trust`, each anomalous episode gets a verdict on its attention,
        which takes about twenty forward passes.
        """
        episodes = self.check_input(X)
        warn_of_silent_sensors(episodes)
        cases = self.known_cases_ if known is None else KnownCases.of(self, self.check_input(known), self.reference_)
        return diagnose(self, episodes, self.reference_, cases, trees=self.tree_reference_, trust=trust)

    def forward(self, X: Any, *, return_attention: bool = False) -> Iterator[ForwardPass]:  # noqa: N803
        """Yield the network's output batch by batch; only one batch is in memory at a time."""
        self.require_network()
        for batch in self.batches(self.check_input(X)):
            with torch.inference_mode():
                yield self.network_(batch.segments, batch.valid, batch.baseline, return_attention=return_attention)

    def require_network(self) -> None:
        """Raise an error if trees decide alone, so that there is no network and no attention."""
        if self.members_ == "trees":
            raise DfstransError(
                "expected a model with a network, got trees alone, which have no attention; train with "
                f"{setting_name('members', 'committee')} or {setting_name('members', 'network')}"
            )

    def _preset_settings(self) -> dict[str, Any]:
        _require_choice("preset", self.preset, tuple(PRESETS))
        if self.members is not None:
            _require_choice("members", self.members, get_args(Members))
        return dict(PRESETS[self.preset])

    # ---- the normal reference and the known faults are part of the model ----------------------------------------

    def _learn_reference(self, train: Episodes, validation: Episodes) -> None:
        labels = train.require_labels()
        kind = TreeReference if self.members_ == "trees" else NormalReference
        self.reference_ = kind.fit(self, train[labels == 0], seed=self.training_settings_.seed)
        self.tree_reference_ = None
        if self.committee_ is not None:
            of_trees = TreeReference.fit(self, train[labels == 0], seed=self.training_settings_.seed)
            self.tree_reference_ = replace(of_trees, fleet=self.reference_.fleet)
        self.known_cases_ = KnownCases.of(self, train[labels == 1], self.reference_)
        if train.groups is not None and validation.groups is not None:
            others = (validation.require_labels() == 0) & ~np.isin(validation.groups, train.groups)
            self.reference_ = self.reference_.with_machines(self, validation[others])

    def _stored(self) -> StoredModel:
        stored, cases = super()._stored(), self.known_cases_
        known = dict(zip(cases.ids, cases.kinds, strict=True))
        return stored._replace(
            record=stored.record.model_copy(update={"known_cases": known, "committee": self.committee_}),
            reference=self._reference_arrays() | {KNOWN_FEATURES: cases.features},
        )

    def _reference_arrays(self) -> Arrays:
        """Return what is normal for the network and, in a committee, for its trees; both share one fleet."""
        arrays = self.reference_.to_arrays()
        if self.tree_reference_ is None:
            return arrays
        shared = self.tree_reference_.fleet.to_arrays()
        own = {name: array for name, array in self.tree_reference_.to_arrays().items() if name not in shared}
        return arrays | {f"{TREES}.{name}": array for name, array in own.items()}

    def _weights(self) -> Weights:
        trees = {} if self.trees_ is None else self.trees_.to_arrays()
        named = {f"{TREES}.{name}": torch.from_numpy(array.copy()) for name, array in trees.items()}
        return named if self.members_ == "trees" else {**super()._weights(), **named}

    def _restore(self, stored: StoredModel) -> None:
        self.committee_, self.members = stored.record.committee, stored.record.decided_by
        mine = {name: one for name, one in stored.weights.items() if not name.startswith(f"{TREES}.")}
        if self.members != "trees":
            super()._restore(stored._replace(weights=mine))
        arrays = {
            name.removeprefix(f"{TREES}."): one.numpy() for name, one in stored.weights.items() if name not in mine
        }
        machines = tuple(name for name, _ in stored.record.machines)
        self.trees_ = MachineTrees.from_arrays(arrays, machines) if arrays else None
        kinds = stored.record.known_cases
        kind = TreeReference if self.members_ == "trees" else NormalReference
        self.reference_, self.tree_reference_ = kind.from_arrays(stored.reference), None
        if self.committee_ is not None:
            found, prefix = stored.reference, f"{TREES}."
            own = {name.removeprefix(prefix): array for name, array in found.items() if name.startswith(prefix)}
            if not own:
                raise KeyError(f"it lacks what is normal for its {TREES}")
            self.tree_reference_ = TreeReference.from_arrays(found | own)
        self.known_cases_ = KnownCases(tuple(kinds), tuple(kinds.values()), stored.reference[KNOWN_FEATURES])


def _look_normal(detector: Diagnoser, episodes: Episodes) -> npt.NDArray[np.bool_]:
    """Return which episodes are called normal, but at least the less suspicious half of each machine's."""
    probabilities = detector.calibration_.probabilities(detector._checked_logits(episodes))
    groups = episodes.require_groups()
    medians = {str(name): np.median(probabilities[groups == name]) for name in np.unique(groups)}
    return np.asarray(probabilities <= np.maximum(detector.threshold_.value, [medians[str(name)] for name in groups]))


def _first_result(labels: Labels, votes: Scores, *, kept: bool) -> str:
    """Say how good the trees of a committee are on the validation part, and what follows."""
    known = 0 < labels.sum() < len(labels)
    good = f"PR-AUC {average_precision(labels, votes):.2f} on the validation part" if known else "trained"
    return f"trees: {good}; the network follows{', Ctrl-C keeps the trees' if kept else ''}"


def _require_choice(setting: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise DfstransError(
            f"expected {setting_name(setting)} to be {' or '.join(known)}, got {given!r}; "
            f"{did_you_mean(str(given), known)}"
        )
