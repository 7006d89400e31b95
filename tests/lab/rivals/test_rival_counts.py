"""The sixteen parameter counts that the paper prints for its baselines, with its slips."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dfstrans.errors import DfstransError
from dfstrans.lab.rivals.inceptiontime import InceptionTime, InceptionTimeSettings
from dfstrans.lab.rivals.mh1dcnn_lstm import MH1DCNNLSTM, MH1DCNNLSTMSettings
from dfstrans.lab.rivals.mlstm_fcn import MLSTMFCN, MLSTMFCNSettings
from dfstrans.lab.rivals.tapnet import TapNet, TapNetSettings

SENSORS = {"elevator": 20, "SMD": 38, "SMAP": 25, "MSL": 55}
POINTS = {"elevator": 8000, "SMD": 500, "SMAP": 500, "MSL": 500}
SEGMENT = {"elevator": 100, "SMD": 50, "SMAP": 50, "MSL": 50}


def count(network: nn.Module) -> int:
    assert all(p.requires_grad for p in network.parameters())
    return sum(p.numel() for p in network.parameters())


def printed(*counts: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("data", "parameters"), list(zip(SENSORS, counts, strict=True)))


@pytest.fixture(autouse=True)
def _without_numbers() -> object:
    with torch.device("meta"):
        yield


@printed(3_303_681, 726_657, 724_161, 729_921)
def test_inceptiontime_has_the_printed_number_of_parameters(data: str, parameters: int) -> None:
    kernels = (49, 99, 199) if data == "elevator" else (9, 19, 39)
    network = InceptionTime(InceptionTimeSettings(n_sensors=SENSORS[data], kernels=kernels))
    assert count(network) == parameters
    assert parameters == 192 * SENSORS[data] + (3_299_841 if data == "elevator" else 719_361)


def test_kernels_9_19_199_in_the_paper_are_a_typo() -> None:
    as_printed = InceptionTime(InceptionTimeSettings(n_sensors=38, kernels=(9, 19, 39)))
    as_printed.blocks[2] = InceptionTime(InceptionTimeSettings(n_sensors=38, kernels=(9, 19, 199))).blocks[2]
    assert count(as_printed) == 726_657 + 3 * 32 * 32 * 160


@printed(5_155_962, 1_389_690, 1_334_394, 1_457_274)
def test_tapnet_has_the_printed_number_of_parameters(data: str, parameters: int) -> None:
    settings = TapNetSettings(n_sensors=SENSORS[data], n_timepoints=POINTS[data])
    assert count(TapNet(settings, torch.zeros(SENSORS[data]))) == parameters
    assert parameters == 6144 * int(SENSORS[data] / 1.5) + 512 * POINTS[data] + 980_090
    dilation, group_size = {"elevator": (125, 13), "SMD": (7, 25), "SMAP": (7, 16), "MSL": (7, 36)}[data]
    assert (settings.dilation, settings.group_size) == (dilation, group_size)  # tab:hyp_benchmark


@printed(371_457, 399_105, 379_137, 425_217)
def test_mlstm_fcn_has_the_printed_number_of_parameters(data: str, parameters: int) -> None:
    assert count(MLSTMFCN(MLSTMFCNSettings(n_sensors=SENSORS[data]))) == parameters == 1536 * SENSORS[data] + 340_737


@pytest.mark.parametrize(
    ("data", "pool", "parameters"),
    [
        ("elevator", False, 20_764_385),  # the table of hyper-parameters says that it pools
        ("SMD", True, 2_696_145),
        ("SMAP", True, 1_841_785),
        ("MSL", True, 3_813_385),  # printed: see the next test
    ],
)
def test_mh1dcnn_lstm_has_the_printed_number_of_parameters(data: str, pool: bool, parameters: int) -> None:
    settings = MH1DCNNLSTMSettings(n_sensors=SENSORS[data], segment_length=SEGMENT[data], pool=pool)
    assert count(MH1DCNNLSTM(settings)) == parameters
    assert parameters == 4280 * SENSORS[data] + 512 * settings.width + 198_785


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
