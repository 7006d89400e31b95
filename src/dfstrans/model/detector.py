"""What training and prediction ask of a network, whatever is inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor, nn

LossOfPart = Callable[[Tensor, slice], Tensor]
"""What the logits of the episodes in `slice` add to the loss of their batch."""


class Scored(Protocol):
    """What one pass gives, at least."""

    @property
    def logit(self) -> Tensor:
        """Of "anomalous", for each episode: (episode,)."""


class Logits(NamedTuple):
    """What a network gives that has nothing but a logit to say."""

    logit: Tensor  # (episode,)


class DetectorNetwork(nn.Module):
    """A network that gives a logit per episode, from segments (b, t, s, p) of which `valid` (b, t) are there."""

    settles: ClassVar[bool] = False  # whether `settle` has anything to do

    def training_logit(self, segments: Tensor, valid: Tensor, labels: Tensor) -> Tensor:
        """The logits of a training batch: (b,). A network that compares episodes with each other needs their labels."""
        logit: Tensor = self(segments, valid).logit
        return logit

    def training_loss(self, segments: Tensor, valid: Tensor, labels: Tensor, loss_of_part: LossOfPart) -> Tensor:
        """The loss of a training batch, in as many parts as suits the network: ()."""
        return loss_of_part(self.training_logit(segments, valid, labels), slice(None))

    def settle(self, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Keep what prediction needs of the whole training part; called before each validation, by those who settle."""
