"""Files larger than memory: scaling, training and prediction stay below a limit that the file exceeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from dfstrans.data.writers import FORMAT, VERSION, fixed_text

N_SENSORS, N_TIMEPOINTS = 20, 8000  # the paper's elevator: 0.64 MB an episode
PROGRAM = """
import resource, sys
from pathlib import Path
import torch
from dfstrans import Diagnoser, load_episodes

small, large = sys.argv[1], sys.argv[2]
torch.set_num_threads(1)
slim = dict(segment_length=1000, embedding="linear", blocks=6, filters=2, heads=2, feedforward=8, head_width=4)

def megabytes(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

def work(path):
    episodes = load_episodes(path)
    assert episodes.is_stored
    Diagnoser.from_settings(**slim, epochs=1, batch_size=16, precision="32").fit(episodes).predict_proba(episodes)

work(small)  # libraries that are loaded on first use do not count
limit = int(megabytes("VmSize") * 1024**2 + 0.98 * Path(large).stat().st_size)  # the file never fits as a whole
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = megabytes("VmHWM")
work(large)
print(megabytes("VmHWM") - before)
try:
    load_episodes(large).load()
except MemoryError:
    print("too large for memory")
"""


def sparse_file(path: Path, n_episodes: int) -> Path:
    """A file like those of `save_episodes`, in which only the first few episodes take space on disk; the rest is 0."""
    some = np.random.default_rng(0).random((8, N_SENSORS, N_TIMEPOINTS), dtype=np.float32)
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": FORMAT, "version": VERSION})
        file.attrs["sensors"] = fixed_text([f"sensor_{i + 1}" for i in range(N_SENSORS)])
        file.attrs["units"] = fixed_text([""] * N_SENSORS)
        file["lengths"] = np.full(n_episodes, N_TIMEPOINTS)
        file["labels"] = np.arange(n_episodes) % 2
        file["ids"] = fixed_text([f"episode_{i}" for i in range(n_episodes)])
        space = h5py.h5s.create_simple((n_episodes, N_SENSORS, N_TIMEPOINTS))
        h5py.h5d.create(file.id, b"values", h5py.h5t.IEEE_F32LE, space, layout)
        file["values"][: len(some)] = some
    return path


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc, which only Linux has")
@pytest.mark.parametrize(
    ("n_episodes", "most"),
    [pytest.param(700, 300, id="448 MB with 300 MB"), pytest.param(2500, 1000, id="1.6 GB with 1 GB")],
)
def test_file_larger_than_memory_can_be_trained_and_predicted(tmp_path: Path, n_episodes: int, most: int) -> None:
    # Only address space can be limited. The allocator reserves 64 MB of it per thread, unused, and keeps 100 to 350 MB
    # of freed arrays, depending on chance, unless each is mapped separately.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    small, large = sparse_file(tmp_path / "small.h5", 16), sparse_file(tmp_path / "large.h5", n_episodes)
    assert large.stat().st_size > 1.4 * most * 1e6
    command = [sys.executable, "-c", PROGRAM, str(small), str(large)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    rise, refused = done.stdout.splitlines()
    assert refused == "too large for memory"
    assert float(rise) < most
