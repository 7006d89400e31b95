"""Batches of segments as tensors, in an order that depends on seed and epoch only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from dfstrans.data.episodes import Episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import cut_segments


class Batch(NamedTuple):
    """Some episodes as tensors.

    Shape:
        segments (b, t, s, p); valid (b, t); labels (b,), NaN where there is none
    """

    segments: Tensor
    valid: Tensor
    labels: Tensor


class EpisodeDataset(Dataset[Batch]):
    """Reads, scales and cuts the episodes of a batch when the batch is asked for; holds nothing but the episodes."""

    def __init__(self, episodes: Episodes, scaler: SensorScaler, segment_length: int) -> None:
        self.episodes = episodes
        self.scaler = scaler
        self.segment_length = segment_length

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, rows: npt.NDArray[np.intp]) -> Batch:
        part = self.episodes[rows]
        segments, valid = cut_segments(part, self.scaler, self.segment_length)
        labels = np.full(len(part), np.nan) if part.labels is None else part.labels
        return Batch(torch.from_numpy(segments), torch.from_numpy(valid), torch.as_tensor(labels, dtype=torch.float32))


class BatchSampler(Sampler[npt.NDArray[np.intp]]):
    """Row numbers in batches: in order, or shuffled anew for each epoch from (seed, epoch) alone.

    Batches are as even as can be: a last batch of one episode could not be normalised.
    """

    def __init__(self, n_episodes: int, batch_size: int, shuffle_seed: int | None = None) -> None:
        self.n_episodes = n_episodes
        self.batch_size = batch_size
        self.shuffle_seed = shuffle_seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the training engine at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.n_episodes // self.batch_size)

    def __iter__(self) -> Iterator[npt.NDArray[np.intp]]:
        rows = np.arange(self.n_episodes)
        if self.shuffle_seed is not None:
            rows = np.random.default_rng((self.shuffle_seed, self.epoch)).permutation(rows)
        # a generator, because a resumed run makes its iterator before it sets the epoch
        if self.n_episodes:
            yield from np.array_split(rows, len(self))


def batch_loader(
    episodes: Episodes, scaler: SensorScaler, segment_length: int, batch_size: int, shuffle_seed: int | None = None
) -> DataLoader[Batch]:
    """All episodes, none dropped, in batches."""
    return DataLoader(
        EpisodeDataset(episodes, scaler, segment_length),
        sampler=BatchSampler(len(episodes), batch_size, shuffle_seed),
        batch_size=None,
    )
