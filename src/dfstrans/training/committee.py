"""A committee: calibrated logits of several members, combined by weights from the validation part."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.special import expit

from dfstrans.data.splits import MIN_PER_CLASS
from dfstrans.settings import Settings
from dfstrans.training.calibration import Calibration, calibrate
from dfstrans.training.evaluation import Labels, Scores

NETWORK, TREES = "network", "trees"
STEPS = 20  # of the weight, from 0 to 1
DRAWS = 100  # bootstrap samples of the validation part


class Committee(Settings):
    """logit = w · network + (1 − w) · trees, of logits that are calibrated first."""

    network_weight: float = Field(ge=0, le=1)
    network: Calibration
    trees: Calibration
    note: str

    @classmethod
    def choose(cls, labels: Labels, network: Scores, trees: Scores, *, odds: tuple[float, float]) -> Committee:
        """Calibrate both members, and choose the weight with the least loss over samples of the validation part.

        The best weight of each bootstrap sample is averaged, so that a few episodes do not decide. With too few
        episodes of a class, both members have equal weight. `odds` are the factors by which the training of each
        member raised the odds of an anomaly.
        """
        calibrations = calibrate(labels, network, odds[0]), calibrate(labels, trees, odds[1])
        n_anomalous = int(labels.sum())
        if min(n_anomalous, len(labels) - n_anomalous) < MIN_PER_CLASS:
            return cls(
                network_weight=0.5,
                network=calibrations[0],
                trees=calibrations[1],
                note=f"equal weights, since the validation part has fewer than {MIN_PER_CLASS} episodes of a class",
            )
        a, b = (one.scale(logits) for one, logits in zip(calibrations, (network, trees), strict=True))
        shares = np.linspace(0, 1, STEPS + 1)
        mixed = shares[:, None] * a + (1 - shares[:, None]) * b
        losses = np.logaddexp(0, mixed) - labels * mixed  # (share, episode)
        rng = np.random.default_rng(0)
        drawn = rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels)), size=DRAWS)
        best = shares[(losses @ drawn.T).argmin(axis=0)]
        weight = float(best.mean())
        note = f"the network has the weight {weight:.2f}, chosen on {len(labels)} validation episodes"
        return cls(network_weight=weight, network=calibrations[0], trees=calibrations[1], note=note)

    def logits(self, network: npt.NDArray[Any], trees: npt.NDArray[Any]) -> Scores:
        """Return the combined logit of each episode."""
        w = self.network_weight
        combined: Scores = w * self.network.scale(network) + (1 - w) * self.trees.scale(trees)
        return combined

    def probabilities(self, network: float, trees: float) -> dict[str, float]:
        """Return the calibrated probability of each member by name."""
        scaled = {NETWORK: self.network.scale(np.array(network)), TREES: self.trees.scale(np.array(trees))}
        return {name: float(expit(one)) for name, one in scaled.items()}
