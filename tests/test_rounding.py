"""The rounding of bf16, computed in 32 bits, against bf16 itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import precision
from benchmarks.rounding import rounded, rounded_products
from dfstrans import save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.model.network import DFSTrans
from dfstrans.settings import NetworkShape

LABELS = torch.tensor([0.0, 1, 0, 1])


def test_a_rounded_number_has_eight_bits() -> None:
    assert rounded(torch.tensor([1.0, 1 + 2**-7, 1 + 2**-9])).tolist() == [1.0, 1 + 2**-7, 1.0]


def gradients(context: Callable[[], AbstractContextManager[object]]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    settings = NetworkShape.paper(n_sensors=3, segment_length=16, filters=8, heads=2, feedforward=32, dropout=0)
    network = DFSTrans(settings).train()
    segments = torch.rand(4, 5, 3, 16)

    def loss_of_part(logits: Tensor, rows: slice) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits.float(), LABELS[rows], reduction="sum")

    with context():
        loss = network.training_loss(segments, None, LABELS, loss_of_part)
        loss.backward()
    return loss.detach(), torch.cat([parameter.grad.flatten() for parameter in network.parameters()])


def test_rounded_products_err_as_bf16_does() -> None:
    exact_loss, exact = gradients(nullcontext)
    _, real = gradients(lambda: torch.autocast("cpu", torch.bfloat16))
    emulated_loss, emulated = gradients(rounded_products)
    assert emulated_loss != exact_loss
    error, expected = float((emulated - exact).norm()), float((real - exact).norm())
    assert expected / 2 < error < 2 * expected
    again_loss, again = gradients(nullcontext)  # nothing stays patched
    assert again_loss == exact_loss
    assert torch.equal(again, exact)


def test_both_precisions_are_trained_on_the_same_splits_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = save_episodes(planted_episodes(24, 12, n_sensors=2, n_timepoints=40), tmp_path / "data.h5")
    command = [str(data), "--splits", "2", "--epochs", "1", "--results", str(tmp_path / "results"), "--json"]
    precision.main(command)
    cells = json.loads(capsys.readouterr().out)
    assert [(cell["split"], cell["precision"]) for cell in cells] == [(0, "32"), (0, "bf16"), (1, "32"), (1, "bf16")]
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").iterdir()}
    precision.main(command[:-1])
    assert "(2 splits)" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in written} == written
    with pytest.raises(DfstransError, match="choose another folder"):
        precision.main([*command[:4], "2", *command[5:]])
