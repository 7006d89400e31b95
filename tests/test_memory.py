from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dfstrans import Episodes, save_episodes

PROGRAM = """
import resource, sys
import torch
from dfstrans import Diagnoser, load_episodes
torch.set_num_threads(1)
tiny = dict(segment_length=100, filters=2, heads=2, feedforward=8, head_width=4, epochs=1, batch_size=4, precision="32")
def work(path):
    episodes = load_episodes(path)
    assert episodes.is_stored
    Diagnoser(**tiny).fit(episodes).predict_proba(episodes)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = work(sys.argv[1])
after = work(sys.argv[2])
print((after - before) / 1024)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_size_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    part = Episodes.from_arrays(rng.random((16, 10, 2000), dtype=np.float32), np.arange(16) % 2)
    save_episodes(part, tmp_path / "small.h5")
    copies = [
        Episodes.from_arrays(part.values, part.labels, ids=[f"{copy}_{row}" for row in range(16)]) for copy in range(50)
    ]
    save_episodes(Episodes.concatenate(copies), tmp_path / "large.h5")
    megabytes = (tmp_path / "large.h5").stat().st_size / 1e6
    assert megabytes > 60
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "small.h5"), str(tmp_path / "large.h5")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert float(done.stdout) < 0.3 * megabytes
