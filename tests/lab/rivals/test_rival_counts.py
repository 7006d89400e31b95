"""How the parameter counts of the rivals follow from their sizes, and the slips of the paper."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dfstrans.errors import DfstransError
from dfstrans.lab.paper.parameters import parameters
from dfstrans.lab.paper.request import DATA_SETS
from dfstrans.lab.rivals.inceptiontime import InceptionTime, InceptionTimeSettings
from dfstrans.lab.rivals.mh1dcnn_lstm import MH1DCNNLSTM, MH1DCNNLSTMSettings
from dfstrans.lab.rivals.tapnet import TapNetSettings


def count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


@pytest.fixture(autouse=True)
def _without_numbers() -> object:
    with torch.device("meta"):
        yield


@pytest.mark.parametrize("data", DATA_SETS)
def test_counts_are_those_of_the_formulas(data: str) -> None:
    """The formulas are in the docstrings of the networks; that the counts are the printed ones, test_targets tells."""
    shape = DATA_SETS[data].shape
    s, t, w = shape
    elevator = data == "elevator"  # the printed network does not pool there, though the hyper-parameters say so
    mh1dcnn = MH1DCNNLSTMSettings(n_sensors=s, segment_length=w, pool=not elevator)
    assert parameters("inceptiontime", shape) == 192 * s + (3_299_841 if elevator else 719_361)
    assert parameters("tapnet", shape) == 6144 * int(s / 1.5) + 512 * t + 980_090
    assert parameters("mlstm-fcn", shape) == 1536 * s + 340_737
    assert parameters("mh1dcnn-lstm", shape) == 4280 * s + 512 * mh1dcnn.width + 198_785
    tapnet = TapNetSettings(n_sensors=s, n_timepoints=t)
    printed = {"elevator": (125, 13), "smd": (7, 25), "smap": (7, 16), "msl": (7, 36)}  # tab:hyp_benchmark
    assert (tapnet.dilation, tapnet.group_size) == printed[data]


def test_kernels_9_19_199_in_the_paper_are_a_typo() -> None:
    as_printed = InceptionTime(InceptionTimeSettings(n_sensors=38, kernels=(9, 19, 39)))
    as_printed.blocks[2] = InceptionTime(InceptionTimeSettings(n_sensors=38, kernels=(9, 19, 199))).blocks[2]
    assert count(as_printed) == 726_657 + 3 * 32 * 32 * 160


def test_printed_mh1dcnn_lstm_count_on_msl_mixes_msl_heads_with_the_smd_lstm() -> None:
    msl, smd = (MH1DCNNLSTM(MH1DCNNLSTMSettings(n_sensors=n, segment_length=50)) for n in (55, 38))
    msl.lstm = smd.lstm
    assert count(msl) == 2_768_905


def test_elevator_count_differs_with_pooling() -> None:
    assert count(MH1DCNNLSTM(MH1DCNNLSTMSettings(n_sensors=20, segment_length=100))) == 2_741_985


def test_segments_too_short_for_the_pooling_are_refused_with_the_remedies() -> None:
    with pytest.raises(DfstransError, match=r"segment_length to be at least 8.* pool=False"):
        MH1DCNNLSTMSettings(n_sensors=2, segment_length=7)
    assert MH1DCNNLSTMSettings(n_sensors=2, segment_length=7, pool=False).width == 280


def test_even_kernels_are_refused() -> None:
    with pytest.raises(DfstransError, match="odd kernels"):
        InceptionTimeSettings(n_sensors=2, kernels=(9, 18, 39))
