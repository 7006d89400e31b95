"""How many parameters the networks of the paper have, without building their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from dfstrans.baselines.inceptiontime import InceptionTime, InceptionTimeSettings
from dfstrans.baselines.mh1dcnn_lstm import MH1DCNNLSTM, MH1DCNNLSTMSettings
from dfstrans.baselines.mlstm_fcn import MLSTMFCN, MLSTMFCNSettings
from dfstrans.baselines.tapnet import TapNet, TapNetSettings
from dfstrans.config import NetworkSettings
from dfstrans.experiments.datasets import DATA_SETS, Shape
from dfstrans.experiments.printed import BY_SENSORS, COUNTS, SLIPS
from dfstrans.model.network import DFSTrans


class Count(NamedTuple):
    """The parameters of a network, beside those that the paper prints."""

    model: str
    data: str
    parameters: int
    printed: int
    note: str  # where the two differ, why

    @property
    def agrees(self) -> bool:
        """Whether the two are equal to the unit."""
        return self.parameters == self.printed


def counts() -> list[Count]:
    """All of tab:timeparams."""
    return [
        Count(model, data, parameters(model, DATA_SETS[data].shape), printed, SLIPS.get((model, data), ""))
        for model, row in COUNTS.items()
        for data, printed in row.items()
    ]


def counts_by_sensors() -> list[Count]:
    """All of tab:n_params_s."""
    return [
        Count("dfstrans", f"{n} sensors", parameters("dfstrans", Shape(n, 8000, 100)), printed, "")
        for n, printed in BY_SENSORS.items()
    ]


def parameters(model: str, shape: Shape) -> int:
    """How many a network of the paper has for recordings of this shape."""
    s, t, w = shape
    long = t > 500  # tab:hyp_benchmark has other kernels for the elevator; its count is one without max-pooling
    with torch.device("meta"):
        kinds: dict[str, Callable[[], nn.Module]] = {
            "dfstrans": lambda: DFSTrans(NetworkSettings(n_sensors=s, segment_length=w)),
            "inceptiontime": lambda: InceptionTime(
                InceptionTimeSettings(n_sensors=s, kernels=(49, 99, 199) if long else (9, 19, 39))
            ),
            "tapnet": lambda: TapNet(TapNetSettings(n_sensors=s, n_timepoints=t), torch.zeros(s)),
            "mlstm-fcn": lambda: MLSTMFCN(MLSTMFCNSettings(n_sensors=s)),
            "mh1dcnn-lstm": lambda: MH1DCNNLSTM(MH1DCNNLSTMSettings(n_sensors=s, segment_length=w, pool=not long)),
        }
        network = kinds[model]()
    return sum(parameter.numel() for parameter in network.parameters())
