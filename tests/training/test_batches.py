"""Batches: every episode once, none dropped, in an order that (seed, epoch) alone decide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.segments import cut_segments
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError
from dfstrans.training.batches import BatchSampler, Draw, batch_loader


def order_of(sampler: BatchSampler, epoch: int) -> list[int]:
    sampler.set_epoch(epoch)
    return [int(row) for batch in sampler for row in batch]


def some_episodes(n: int = 7) -> Episodes:
    rng = np.random.default_rng(0)
    lengths = [12, 5, 9, 12, 3, 4, 8][:n]
    return Episodes.from_arrays([rng.normal(size=(2, length)) for length in lengths], labels=[0, 1, 0, 1, 0, 0, 1][:n])


@given(st.integers(1, 40), st.integers(1, 12), st.one_of(st.none(), st.integers(0, 99)), st.integers(0, 9))
@settings(max_examples=80, deadline=None)
def test_every_row_comes_exactly_once_and_the_last_batch_is_not_dropped(
    n: int, size: int, seed: int | None, epoch: int
) -> None:
    sampler = BatchSampler(n, size, seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert sorted(np.concatenate(batches).tolist()) == list(range(n))
    assert len(batches) == len(sampler)
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1  # as even as can be


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    used = BatchSampler(20, 3, 5)
    orders = [order_of(used, epoch) for epoch in range(4)]
    np.random.seed(1)
    torch.manual_seed(1)
    assert [order_of(BatchSampler(20, 3, 5), epoch) for epoch in (3, 2, 1, 0)] == orders[::-1]
    assert order_of(used, 1) == order_of(used, 1) == orders[1]
    assert order_of(BatchSampler(20, 7, 5), 2) == orders[2]
    assert len({tuple(order) for order in orders}) == 4
    assert order_of(BatchSampler(20, 3, 6), 0) != orders[0]
    assert order_of(BatchSampler(20, 3, 5), 1) != order_of(BatchSampler(20, 3, 6), 0)


def test_without_a_seed_rows_come_in_order_in_every_epoch() -> None:
    sampler = BatchSampler(7, 3)
    for epoch in (0, 5):
        assert order_of(sampler, epoch) == list(range(7))
    assert [batch.tolist() for batch in sampler] == [[0, 1, 2], [3, 4], [5, 6]]


def test_loader_yields_segments_and_labels_of_each_episode() -> None:
    episodes = some_episodes()
    scaler = SensorScaler.fit(episodes)
    batches = list(batch_loader(episodes, scaler, 4, 3))
    assert [len(batch.labels) for batch in batches] == [3, 2, 2]
    assert [batch.segments.shape[1] for batch in batches] == [3, 3, 2]  # no batch is padded beyond its own longest
    row = 0
    for batch in batches:
        assert batch.segments.dtype == batch.labels.dtype == torch.float32
        assert batch.valid.dtype == torch.bool
        assert batch.baseline is None
        for segments, valid, label in zip(*batch[:3], strict=True):
            alone = cut_segments(episodes[[row]], scaler, 4)
            assert_array_equal(segments[valid].numpy(), alone.values[0])
            assert label == episodes.labels[row]
            row += 1
    assert row == 7


def test_shuffling_is_over_all_files_and_not_within_neighbours(tmp_path: Path) -> None:
    n, size = 240, 12
    parts = []
    for number in range(3):  # three files of 80 episodes; each episode holds its own number
        rows = np.arange(number * 80, (number + 1) * 80)
        values = np.broadcast_to(rows[:, None, None], (80, 1, 4))
        part = Episodes.from_arrays(values, rows % 2, ids=[str(row) for row in rows])
        parts.append(load_episodes(save_episodes(part, tmp_path / f"{number}.h5")))
    episodes = Episodes.concatenate(parts)
    assert episodes.is_stored
    unscaled = SensorScaler(episodes.sensors, np.zeros(1), np.ones(1), np.zeros(1))
    loader = batch_loader(episodes, unscaled, 4, size, shuffle_seed=0)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        batches = [batch.segments[:, 0, 0, 0].numpy() for batch in loader]
        order = np.concatenate(batches)
        assert sorted(order.tolist()) == list(range(n))
        assert all(len(set(batch // 80)) > 1 for batch in batches)  # no batch comes from one file
        assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 0.25  # 4 standard errors of an honest shuffle
        assert np.median(np.abs(np.diff(order))) > n / 5  # of neighbours in an honest shuffle: 0.29 n


def test_episodes_without_labels_have_nan_for_a_label() -> None:
    episodes = Episodes.from_arrays(np.zeros((2, 1, 8)))
    (batch,) = batch_loader(episodes, SensorScaler.fit(episodes), 4, 5)
    assert batch.labels.isnan().all()
    assert batch.labels.shape == (2,)


def test_epoch_has_all_anomalies_and_resampled_normal_episodes() -> None:
    labels = (np.arange(60) % 10 == 0).astype(np.int8)  # 6 of 60
    draw = Draw(labels, 2.5)
    sampler = BatchSampler(60, 4, 5, draw)
    epochs = [order_of(sampler, epoch) for epoch in range(8)]
    assert {len(rows) for rows in epochs} == {len(draw)} == {6 + 15}
    for rows in epochs:
        assert len(set(rows)) == len(rows)
        assert set(rows) >= set(np.flatnonzero(labels).tolist())
    assert len({frozenset(rows) for rows in epochs}) == 8
    assert len(set().union(*epochs)) > 50  # in time all have their turn
    assert order_of(BatchSampler(60, 4, 5, draw), 3) == epochs[3]
    assert draw.thinning == 54 / 15


def test_a_draw_needs_a_seed() -> None:
    with pytest.raises(DfstransError, match="expected a shuffle_seed with draw"):
        BatchSampler(4, 2, draw=Draw(np.int8([0, 1, 0, 1]), 3))


def test_few_normal_episodes_are_all_drawn() -> None:
    labels = np.int8([0, 1, 0, 1])
    draw = Draw(labels, 3)
    assert sorted(order_of(BatchSampler(4, 2, 0, draw), 0)) == [0, 1, 2, 3]
    assert draw.thinning == 1
