"""What tests share: the public data sets and an exported model; without them the tests that need them are skipped."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
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

    def unpack(folder: Path) -> None:
        subprocess.run([sys.executable, str(_UNPACK), str(folder)], check=True, capture_output=True)

    return _made_once(place / "data", unpack)


def _made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """Make a folder, unless another worker has made it."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)  # what an interrupted run left
            make(half)
            half.rename(folder)
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same for all workers."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


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
def tiny_model(shared: Path) -> Path:
    """A model trained on the tiny episodes; who changes it makes a copy."""
    from dfstrans import Diagnoser

    return _made_once(shared / "tiny", lambda folder: Diagnoser.from_settings(**TINY).fit(tiny_episodes()).save(folder))


@pytest.fixture(scope="session")
def exported(tiny_model: Path, shared: Path) -> Path:
    """An ONNX file; the model that it was exported from has the same name without the suffix."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extra onnx: pip install 'dfstrans[onnx]'")
    from dfstrans.deploy.onnx_export import export_onnx

    def export(folder: Path) -> None:
        shutil.copytree(tiny_model, folder / "model")
        export_onnx(folder / "model", folder / "model.onnx", tiny_episodes())

    return _made_once(shared / "exported", export) / "model.onnx"


@pytest.fixture(scope="session")
def planted_model(shared: Path) -> tuple[Path, Episodes]:
    """A model trained long enough to detect, and the episodes with known faults that it was trained from."""
    from dfstrans import Diagnoser
    from dfstrans.detectors.workflow import train_model

    episodes = planted_episodes(n_normal=60, n_anomalous=24, n_sensors=4, n_timepoints=96)
    slim = {"segment_length": 16, "width": 8, "heads": 2, "feedforward": 16, "batch_size": 8, "epochs": 10}
    return _made_once(
        shared / "planted", lambda folder: train_model(Diagnoser.from_settings(**slim), episodes, folder)
    ), episodes


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let fleets of elevators measure their normal variation from few pairs."""
    from dfstrans.lab.elevator import simulation

    monkeypatch.setattr(simulation, "measure_normal_variation", partial(simulation.measure_normal_variation, n_pairs=4))
    simulation._normal_variation.cache_clear()
    yield
    simulation._normal_variation.cache_clear()
