"""What tests share: the public data sets and an exported model; without them the tests that need them are skipped."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import planted_episodes
from tests.tiny import TINY, tiny_episodes

torch.set_num_threads(1)  # several workers with several threads each would wait for one another
os.environ["OMP_NUM_THREADS"] = "1"  # the same for programs that tests start


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Neighbouring tests stay with one worker while it has any, so that what a file or folder shares is made once."""
    if config.getoption("dist") != "load":  # asked for
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


_UNPACK = Path(__file__).resolve().parents[2] / "shared" / "data" / "unpack"


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder that DFSTRANS_DATA names, or one unpacked once for all workers and all runs of this user."""
    if "DFSTRANS_DATA" in os.environ:
        return Path(os.environ["DFSTRANS_DATA"])
    if not _UNPACK.is_file():
        pytest.skip("needs the public data: set DFSTRANS_DATA to the folder with telemanom/ and ServerMachineDataset/")
    place = Path(tempfile.gettempdir()) / f"dfstrans-public-data-{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data, half = place / "data", place / "half"
        if not data.exists():
            shutil.rmtree(half, ignore_errors=True)  # what an interrupted run left
            subprocess.run([sys.executable, str(_UNPACK), str(half)], check=True, capture_output=True)
            half.rename(data)
    return data


@pytest.fixture(scope="session")
def telemanom_folder(public_data: Path) -> Path:
    return _folder(public_data, "telemanom")


@pytest.fixture(scope="session")
def smd_folder(public_data: Path) -> Path:
    return _folder(public_data, "ServerMachineDataset")


def _folder(data: Path, name: str) -> Path:
    if not (data / name).is_dir():
        pytest.skip(f"needs {name}/ in the folder of DFSTRANS_DATA")
    return data / name


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on the tiny episodes; who changes it makes a copy."""
    from dfstrans import Diagnoser

    folder = tmp_path_factory.mktemp("tiny") / "model"
    Diagnoser.from_settings(**TINY).fit(tiny_episodes()).save(folder)
    return folder


@pytest.fixture(scope="session")
def exported(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX file; the model that it was exported from has the same name without the suffix."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extra onnx: pip install 'dfstrans[onnx]'")
    from dfstrans.deploy.onnx_export import export_onnx

    folder = tmp_path_factory.mktemp("exported") / "model"
    shutil.copytree(tiny_model, folder)
    export_onnx(folder, folder.with_suffix(".onnx"), tiny_episodes())
    return folder.with_suffix(".onnx")


@pytest.fixture(scope="session")
def planted_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Episodes]:
    """A model trained long enough to detect, and the episodes with known faults that it was trained from."""
    from dfstrans import Diagnoser
    from dfstrans.detectors.workflow import train_model

    episodes = planted_episodes(n_normal=60, n_anomalous=24, n_sensors=4, n_timepoints=96)
    slim = {"segment_length": 16, "width": 8, "heads": 2, "feedforward": 16, "batch_size": 8, "epochs": 10}
    folder = tmp_path_factory.mktemp("planted") / "model"
    train_model(Diagnoser.from_settings(**slim), episodes, folder)
    return folder, episodes
