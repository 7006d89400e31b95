from __future__ import annotations

import pytest
import torch

from dfstrans.model.pooling import LEAST_VARIANCE, added, even_share, pool, pooled_width

X = torch.tensor([[[1.0, 5.0], [3.0, 5.0], [100.0, 100.0]]])  # an episode of two segments and a padded one
VALID = torch.tensor([[True, True, False]])


def test_mean_and_deviation_of_the_segments_that_are_there_worked_by_hand() -> None:
    share = even_share(X, VALID)
    torch.testing.assert_close(share, torch.tensor([[0.5, 0.5, 0.0]]))
    torch.testing.assert_close(pool(X, share, "mean"), torch.tensor([[2.0, 5.0]]))
    expected = torch.tensor([[2.0, 5.0, (1 + LEAST_VARIANCE) ** 0.5, LEAST_VARIANCE**0.5]])
    torch.testing.assert_close(pool(X, share, "mean+deviation"), expected)
    torch.testing.assert_close(pool(X[:, :2], None, "mean+deviation"), expected)
    assert (pooled_width(7, "mean"), pooled_width(7, "mean+deviation")) == (7, 14)


def test_one_segment_has_a_deviation_that_can_be_learned_through() -> None:
    x = torch.ones(1, 1, 2, requires_grad=True)
    pool(x, None, "mean+deviation").sum().backward()
    assert torch.isfinite(x.grad).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("pooling", ["mean", "mean+deviation"])
def test_what_segments_and_sensors_add_is_the_weighted_sum_of_what_is_pooled(pooling: str) -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 3, 5, generator=random, dtype=torch.float64)
    share = even_share(x, torch.tensor([[True] * 4, [True, True, False, False]]))
    weight = torch.randn(2, pooled_width(15, pooling), generator=random, dtype=torch.float64)  # type: ignore[arg-type]
    parts = added(x, weight, share, pooling)  # type: ignore[arg-type]
    assert parts.shape == (2, 4, 3)
    torch.testing.assert_close(
        parts.sum(dim=(1, 2)),
        (pool(x.flatten(2), share, pooling) * weight).sum(dim=1),  # type: ignore[arg-type]
    )
    assert not parts[1, 2:].any()


def test_a_segment_unlike_the_others_has_the_larger_part_of_a_deviation() -> None:
    x = torch.zeros(1, 10, 1, 1)
    x[0, 3] = 1
    weight = torch.tensor([[0.0, 1.0]])
    assert added(x, weight, even_share(x, None), "mean+deviation")[0, :, 0].argmax() == 3
