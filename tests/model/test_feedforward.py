"""The blocked feed-forward network equals the plain one, in value and in every gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from dfstrans.model import feedforward
from dfstrans.model.feedforward import FeedForward

D, WIDTH = 4, 12


def both(dtype: torch.dtype = torch.float64) -> tuple[FeedForward, nn.Sequential]:
    torch.manual_seed(0)
    blocked = FeedForward(D, WIDTH).to(dtype)
    plain = nn.Sequential(nn.Linear(D, WIDTH), nn.ReLU(), nn.Linear(WIDTH, D)).to(dtype)
    for mine, theirs in zip(plain.parameters(), blocked.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    return blocked, plain


def gradients(module: nn.Module, x: Tensor, weight: Tensor) -> tuple[Tensor, list[Tensor]]:
    x = x.clone().requires_grad_()
    y = module(x)
    (y.float() * weight.float()).sum().backward()
    return y.detach(), [x.grad, *(p.grad for p in module.parameters())]


@pytest.mark.parametrize("block_rows", [1, 3, 5, 15, 1024])
@pytest.mark.parametrize("shape", [(15, D), (3, 5, D), (1, 3, 5, D), (1, D), (16, D), (2, 7, D)])
def test_blocked_equals_plain_whether_or_not_the_rows_fill_the_last_block(
    shape: tuple[int, ...], block_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedforward, "BLOCK_ROWS", block_rows)
    blocked, plain = both(torch.float32)
    x, weight = torch.randn(shape), torch.randn(shape)
    y, mine = gradients(blocked, x, weight)
    expected, theirs = gradients(plain, x, weight)
    assert_close(y, expected)
    for one, other in zip(mine, theirs, strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_gradients_equal_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "BLOCK_ROWS", 2)
    blocked, _ = both()
    x = torch.randn(5, D, dtype=torch.float64, requires_grad=True)
    parameters = tuple(blocked.parameters())

    def function(x: Tensor, *_: Tensor) -> Tensor:
        return blocked(x)

    # the gradients of the weights are summed in single precision, which these tolerances allow for
    assert torch.autograd.gradcheck(function, (x, *parameters), eps=1e-6, atol=1e-4)


def test_three_rows_worked_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # hidden = ReLU(x, −x), output = hidden₁ + 2·hidden₂ + 1
    monkeypatch.setattr(feedforward, "BLOCK_ROWS", 2)
    blocked = FeedForward(1, 2)
    with torch.no_grad():
        for parameter, value in zip(blocked.parameters(), ([[1.0], [-1]], [0.0, 0], [[1.0, 2]], [1.0]), strict=True):
            parameter.copy_(torch.tensor(value))
    x = torch.tensor([[3.0], [-2], [0]], requires_grad=True)
    y = blocked(x)
    y.sum().backward()
    assert y.flatten().tolist() == [4, 5, 1]
    assert x.grad.flatten().tolist() == [1, -2, 0]
    assert blocked.widen.weight.grad.flatten().tolist() == [3, -4]
    assert blocked.widen.bias.grad.tolist() == [1, 2]
    assert blocked.narrow.weight.grad.tolist() == [[3, 2]]
    assert blocked.narrow.bias.grad.tolist() == [3]


def test_gradients_add_up_over_two_calls() -> None:
    blocked, plain = both(torch.float32)
    for module in (blocked, plain):
        for seed in (1, 2):
            torch.manual_seed(seed)
            module(torch.randn(6, D)).square().sum().backward()
    for one, other in zip(blocked.parameters(), plain.parameters(), strict=True):
        assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-5)


def test_inputs_that_are_not_contiguous_are_welcome() -> None:
    blocked, plain = both(torch.float32)
    x = torch.randn(3, D, 5).transpose(1, 2)
    assert not x.is_contiguous()
    assert_close(blocked(x), plain(x))


def test_half_precision_stays_close_to_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedforward, "BLOCK_ROWS", 64)
    blocked, _ = both(torch.float32)
    x, weight = torch.randn(300, D), torch.randn(300, D)
    y, exact = gradients(blocked, x, weight)
    blocked.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough, near = gradients(blocked, x, weight)
    assert rough.dtype == torch.bfloat16
    assert_close(rough.float(), y, rtol=0.02, atol=0.02)
    for one, other in zip(near, exact, strict=True):  # as a whole: rounding may carry single numbers across ReLU's kink
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.05 * other.norm()


def test_without_gradients_wanted_the_value_is_the_same() -> None:
    blocked, _ = both(torch.float32)
    x = torch.randn(6, D)
    with torch.inference_mode():
        inferred = blocked(x)
    assert_close(inferred, blocked(x).detach(), rtol=0, atol=0)
