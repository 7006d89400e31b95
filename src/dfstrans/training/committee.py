"""A committee: calibrated logits of several members, combined by weights from the validation part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dfstrans.data.splits import MIN_PER_CLASS
from dfstrans.settings import Settings
from dfstrans.training.calibration import Calibration, calibrate
from dfstrans.training.evaluation import Labels, Scores, average_precision

COMMITTEE, NETWORK, TREES = "committee", "network", "trees"
SHARES = np.linspace(0, 1, 11)  # weights that are tried
DRAWS = 50  # bootstrap samples of the validation part, within each class
PRIOR_WEIGHT = 0.3  # of a network that learned from many anomalies; the best on average over several data sets [ADR 26]
FEW_ANOMALIES = 30  # in training: with so many, the network has half of that weight, since it needs more than trees do
PRIOR_ANOMALIES = 20  # validation anomalies that the prior is worth


class MemberLogits(NamedTuple):
    """The logits of both members: (episode,) each."""

    network: Scores
    trees: Scores


class Committee(Settings):
    """logit = w · network + (1 − w) · trees, of logits that are calibrated first.

    Where machines have no baseline of their own, both members are worse, but not equally: there, the weight is another.
    """

    network_weight: float = Field(ge=0, le=1)
    network_weight_on_fleet: float = Field(ge=0, le=1)  # of a recording that is compared with the fleet only
    network: Calibration
    trees: Calibration
    note: str
    pr_auc: dict[str, dict[str, float | None]] = Field(default_factory=dict)  # of each member, by part and member

    @classmethod
    def choose(
        cls, labels: Labels, own: MemberLogits, fleet: MemberLogits, *, network_odds: float, training_anomalies: int
    ) -> Committee:
        """Calibrate both members, and choose the weight with the highest PR-AUC over samples of the validation part.

        The best weight of each bootstrap sample is averaged, and shrunk towards what is best elsewhere, so that a few
        episodes do not decide. `own` are the logits where machines are compared with themselves, `fleet` those where
        they are not. `network_odds` is the factor by which the training of the network raised the odds of an anomaly;
        that of the trees raises none.
        """
        calibrations = calibrate(labels, own.network, network_odds), calibrate(labels, own.trees, 1.0)
        scaled = [MemberLogits(*(c.scale(x) for c, x in zip(calibrations, one, strict=True))) for one in (own, fleet)]
        prior = PRIOR_WEIGHT * training_anomalies / (training_anomalies + FEW_ANOMALIES)
        weight, on_fleet = (choose_share(labels, *one, prior=prior) for one in scaled)
        n_anomalous, (a, b) = int(labels.sum()), scaled[0]
        note = f"the network has the weight {weight:.2f}, "
        if can_choose(labels):
            note += f"chosen on {len(labels)} validation episodes"
        else:
            note += "since the validation part is too small to choose one"
        if round(on_fleet, 2) != round(weight, 2):
            note += f"; {on_fleet:.2f} where a machine has no baseline of its own"
        network, trees = calibrations
        found = cls(network_weight=weight, network_weight_on_fleet=on_fleet, network=network, trees=trees, note=note)
        if not 0 < n_anomalous < len(labels):
            return found
        pr_auc = {NETWORK: average_precision(labels, a), TREES: average_precision(labels, b)}
        return found.with_pr_auc("validation", pr_auc)

    def with_pr_auc(self, part: str, members: Mapping[str, float | None]) -> Committee:
        """Return this committee with the PR-AUC of each member in a part of the episodes."""
        return self.model_copy(update={"pr_auc": {**self.pr_auc, part: dict(members)}})

    def summary(self) -> dict[str, Any]:
        """Return the weight of the network, why, and the PR-AUC of each member by part."""
        return self.model_dump(include={"network_weight", "network_weight_on_fleet", "note", "pr_auc"})

    def logits(self, network: npt.NDArray[Any], trees: npt.NDArray[Any], compared: npt.NDArray[np.bool_]) -> Scores:
        """Return the combined logit of each episode; `compared` marks those compared with their own machine."""
        w = np.where(compared, self.network_weight, self.network_weight_on_fleet)
        combined: Scores = w * self.network.scale(network) + (1 - w) * self.trees.scale(trees)
        return combined

    def probabilities(self, network: npt.NDArray[Any], trees: npt.NDArray[Any]) -> dict[str, Scores]:
        """Return the calibrated probabilities of each member by name."""
        return {NETWORK: self.network.probabilities(network), TREES: self.trees.probabilities(trees)}


def can_choose(labels: Labels) -> bool:
    """Return whether there are enough episodes of both classes to choose a weight."""
    return bool(min(labels.sum(), len(labels) - labels.sum()) >= MIN_PER_CLASS)


def choose_share(labels: Labels, first: Scores, second: Scores, *, prior: float) -> float:
    """Return the weight of the first scores beside the second ones that has the highest PR-AUC.

    It is averaged over bootstrap samples and shrunk towards `prior`, which is the answer if there are too few episodes.
    """
    if not can_choose(labels):
        return prior
    n_anomalous = int(labels.sum())
    best = np.mean([_best_share(labels[rows], first[rows], second[rows]) for rows in _samples(labels)])
    return float((n_anomalous * best + PRIOR_ANOMALIES * prior) / (n_anomalous + PRIOR_ANOMALIES))


def _samples(labels: Labels) -> list[npt.NDArray[np.intp]]:
    """Return the rows of bootstrap samples, drawn within each class."""
    rng = np.random.default_rng(0)
    classes = [np.flatnonzero(labels == label) for label in (0, 1)]
    return [np.concatenate([rng.choice(rows, len(rows)) for rows in classes]) for _ in range(DRAWS)]


def _best_share(labels: Labels, network: Scores, trees: Scores) -> float:
    """Return the weight of the network with the highest PR-AUC, the mean of several equally good ones."""
    found = np.array([average_precision(labels, share * network + (1 - share) * trees) for share in SHARES])
    return float(SHARES[found >= found.max() - 1e-12].mean())
