"""What training and prediction ask of a network, whatever is inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor, nn

from dfstrans.model.mixing import Mixing

LossOfPart = Callable[[Tensor, slice], Tensor]
"""What the logits of the episodes in `slice` add to the loss of their batch."""


class TrainingPart(Protocol):
    """All that is trained on, in order and as it is, batch by batch: segments (b, t, s, p), valid (b, t), labels (b,).

    `valid` is False for padded segments.
    """

    def __len__(self) -> int:
        """Batches."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """One batch after the other."""


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

    def training_loss(
        self, segments: Tensor, valid: Tensor, labels: Tensor, loss_of_part: LossOfPart, mixing: Mixing | None = None
    ) -> Tensor:
        """The loss of a training batch, in as many parts as suits the network: ().

        With `mixing` the labels are mixed already; the episodes are to be, where it suits the network.
        """
        if mixing is not None:
            segments = mixing.of_segments(segments, valid)
        return loss_of_part(self.training_logit(segments, valid, labels), slice(None))

    def prepare(self, part: TrainingPart) -> None:
        """Take what training needs to know of the whole training part, before its first step."""

    def settle(self, part: TrainingPart) -> None:
        """Keep what prediction needs of the whole training part; called before each validation, by those who settle."""
