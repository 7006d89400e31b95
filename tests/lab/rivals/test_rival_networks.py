"""What holds for the networks of the rivals with any weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dfstrans.errors import DfstransError
from dfstrans.lab.rivals import layers as whole
from dfstrans.lab.rivals.inceptiontime import InceptionTime, InceptionTimeSettings
from dfstrans.lab.rivals.mh1dcnn_lstm import MH1DCNNLSTM, MH1DCNNLSTMSettings
from dfstrans.lab.rivals.mlstm_fcn import MLSTMFCN, MLSTMFCNSettings
from dfstrans.lab.rivals.tapnet import TapNet, TapNetSettings
from dfstrans.model.detector import DetectorNetwork

CUT = MH1DCNNLSTMSettings(n_sensors=3, segment_length=8, filters=4)
NETWORKS = {
    "inceptiontime": lambda: InceptionTime(InceptionTimeSettings(n_sensors=3, kernels=(3, 5, 9))),
    "mlstm-fcn": lambda: MLSTMFCN(MLSTMFCNSettings(n_sensors=3)),
    "tapnet": lambda: TapNet(TapNetSettings(n_sensors=3, n_timepoints=40), torch.rand(3)),
    "mh1dcnn-lstm": lambda: MH1DCNNLSTM(CUT),
    "mh1dcnn-lstm without pooling": lambda: MH1DCNNLSTM(CUT.model_copy(update={"pool": False})),
}


@pytest.fixture(params=list(NETWORKS))
def network(request: pytest.FixtureRequest) -> DetectorNetwork:
    """With random weights, and statistics as if it had been trained."""
    torch.manual_seed(0)
    network = NETWORKS[request.param]()
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm1d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    if isinstance(network, TapNet):
        network.prototypes.normal_()
    return network.eval()


def episodes(network: DetectorNetwork, n: int = 4) -> Tensor:
    points = CUT.segment_length if isinstance(network, MH1DCNNLSTM) else 1
    return torch.rand(n, 32 // points, 3, points)


def test_a_score_does_not_depend_on_batch_mates(network: DetectorNetwork) -> None:
    one, mates = episodes(network, 1), 100 * episodes(network, 3)
    torch.testing.assert_close(network(torch.cat([one, mates])).logit[:1], network(one).logit, atol=1e-4, rtol=1e-4)


def test_padding_does_not_change_scores(network: DetectorNetwork) -> None:
    whole_batch = episodes(network)
    t = whole_batch.shape[1]
    lengths = torch.tensor([t, t // 2, t - 1, t * 3 // 4])
    valid = torch.arange(t) < lengths[:, None]
    alone = torch.cat([network(x[None, :n]).logit for x, n in zip(whole_batch, lengths, strict=True)])
    garbage = torch.where(valid[..., None, None], whole_batch, torch.tensor(1e6))
    for padded in (whole_batch, garbage):
        torch.testing.assert_close(network(padded, valid).logit, alone, atol=1e-4, rtol=1e-4)


def test_padding_does_not_change_training(network: DetectorNetwork) -> None:
    """Batch statistics are those of what is there: two copies of a batch, one padded, leave the same ones."""
    x = episodes(network)
    b, t = x.shape[:2]
    valid = torch.arange(t + 3) < torch.tensor([t, t - 1, t, t - 2])[:, None]
    labels = torch.tensor([0.0, 1.0, 0.0, 1.0])
    found = []
    for filler in (0.0, 1e6):
        torch.manual_seed(1)
        padded = torch.cat([x, torch.zeros(b, 3, *x.shape[2:])], dim=1)
        padded = torch.where(valid[..., None, None], padded, torch.tensor(filler))
        network.train().zero_grad()
        for norm in network.modules():
            if isinstance(norm, nn.BatchNorm1d):
                norm.reset_running_stats()
        logit = network.training_logit(padded, valid, labels)
        logit.sum().backward()
        statistics = [norm.running_mean.clone() for norm in network.modules() if isinstance(norm, nn.BatchNorm1d)]
        found.append(
            [logit.detach(), *statistics, *(p.grad.clone() for p in network.parameters() if p.grad is not None)]
        )
    for first, second in zip(*found, strict=True):
        assert torch.isfinite(first).all()
        torch.testing.assert_close(first, second)


def test_every_parameter_learns(network: DetectorNetwork) -> None:
    network.train()
    x = episodes(network, 8)
    logit = network.training_logit(x, torch.ones(x.shape[:2], dtype=torch.bool), torch.tensor([0.0, 1.0] * 4))
    logit.square().sum().backward()
    assert not [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


def test_point_norm_ignores_padding() -> None:
    norm, plain = whole.PointNorm(2), nn.BatchNorm1d(2)
    x = torch.randn(2, 2, 5)
    valid = torch.tensor([[True] * 5, [True, True, False, False, False]])
    expected = plain(torch.cat([x[0].T, x[1, :, :2].T]))  # (7, 2)
    found = norm(x, valid)
    torch.testing.assert_close(torch.cat([found[0].T, found[1, :, :2].T]), expected)
    assert not found[1, :, 2:].any()
    torch.testing.assert_close(norm.running_var, plain.running_var)


def test_short_episodes_are_padded_with_the_training_mean() -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0]], [[4.0, 5.0, 9.0]]])
    valid = torch.tensor([[True, True, True], [True, True, False]])
    filled = whole.filled_up(x, valid, 4, torch.tensor([0.5]))
    assert filled.tolist() == [[[1.0, 2.0, 3.0, 0.5]], [[4.0, 5.0, 0.5, 0.5]]]


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(DfstransError, match=r"expected kernel to be odd.*use 3 or 5"):
        MH1DCNNLSTMSettings(n_sensors=2, segment_length=16, kernel=4)
