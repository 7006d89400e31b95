"""Batches of segments as tensors, in an order that depends only on the seed and the epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from dfstrans.data.baselines import Baselines
from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import cut_segments
from dfstrans.errors import DfstransError
from dfstrans.model.detector import Batch
from dfstrans.settings import episodes_of_an_epoch


class EpisodeDataset(Dataset[Batch]):
    """Reads, scales and segments the episodes of a batch on demand."""

    def __init__(
        self, episodes: Episodes, scaler: SensorScaler, segment_length: int, baselines: Baselines | None = None
    ) -> None:
        self.episodes = episodes
        self.scaler = scaler
        self.segment_length = segment_length
        self.baselines = baselines

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> Batch:
        part = self.episodes[rows]
        segments, valid = cut_segments(part, self.scaler, self.segment_length)
        labels = np.full(len(part), np.nan) if part.labels is None else part.labels
        baseline = None
        if self.baselines is not None:
            baseline = torch.from_numpy(self.baselines.of_segments(part.groups, len(part)))
        return Batch(
            torch.from_numpy(segments),
            torch.from_numpy(valid),
            torch.as_tensor(labels, dtype=torch.float32),
            baseline,
        )


@dataclass(frozen=True)
class Draw:
    """Draws all anomalous episodes per epoch, and a limited random sample of normal ones for each."""

    labels: npt.NDArray[np.int8]
    normals_per_anomaly: float

    @property
    def n_normal(self) -> int:
        """Number of normal episodes per epoch."""
        return len(self) - int(self.labels.sum())

    @property
    def thinning(self) -> float:
        """The ratio of all normal episodes to those drawn, by which drawing raises the odds of an anomaly."""
        return float((len(self.labels) - self.labels.sum()) / self.n_normal)

    def __len__(self) -> int:
        return episodes_of_an_epoch(len(self.labels), int(self.labels.sum()), self.normals_per_anomaly)

    def rows(self, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Draw the rows of one epoch."""
        normal = rng.choice(np.flatnonzero(self.labels == 0), self.n_normal, replace=False)
        return np.concatenate([np.flatnonzero(self.labels), normal])


class Share(NamedTuple):
    """The share of each batch that a process computes: every `of`-th episode from `number` on."""

    number: int
    of: int


WHOLE = Share(0, 1)


class BatchSampler(Sampler[npt.NDArray[np.intp]]):
    """Yields batches of rows: in order, or drawn and shuffled depending only on (seed, epoch).

    Batch sizes are as equal as possible, because a last batch of one episode could not be normalised. Of several
    processes, each yields its share of every batch.
    """

    def __init__(
        self,
        n_episodes: int,
        batch_size: int,
        shuffle_seed: int | None = None,
        draw: Draw | None = None,
        share: Share = WHOLE,
    ) -> None:
        if draw is not None and shuffle_seed is None:
            raise DfstransError("expected a shuffle_seed with draw, got None; pass a shuffle_seed")
        self.n_episodes = n_episodes if draw is None else len(draw)
        self.rows = np.arange(n_episodes)
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.draw = draw
        self.share = share
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; Lightning calls this at the start of each one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.n_episodes // self.batch_size)

    def __iter__(self) -> Iterator[npt.NDArray[np.intp]]:
        rows = self.rows
        if self.shuffle_seed is not None:
            rng = np.random.default_rng((self.shuffle_seed, self.epoch))
            rows = rng.permutation(rows if self.draw is None else self.draw.rows(rng))
        # a generator, because a resumed run creates the iterator before it sets the epoch
        if self.n_episodes:
            yield from (batch[self.share.number :: self.share.of] for batch in np.array_split(rows, len(self)))


def batch_loader(
    episodes: Episodes,
    scaler: SensorScaler,
    segment_length: int,
    batch_size: int,
    shuffle_seed: int | None = None,
    draw: Draw | None = None,
    baselines: Baselines | None = None,
    share: Share = WHOLE,
) -> DataLoader[Batch]:
    """Return a loader of all episodes in batches, or of those drawn for an epoch, or of a share of each batch."""
    return DataLoader(
        EpisodeDataset(episodes, scaler, segment_length, baselines),
        sampler=BatchSampler(len(episodes), batch_size, shuffle_seed, draw, share),
        batch_size=None,
    )
