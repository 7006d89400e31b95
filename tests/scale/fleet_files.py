"""Files of a fleet, as tests of scoring need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.tiny import tiny_episodes


def part(number: int, machine: str | None = None, n_normal: int = 4, n_anomalous: int = 2) -> pd.DataFrame:
    """The recordings of one file, with ids of their own; every second day has a file."""
    episodes = tiny_episodes(number, n_normal, n_anomalous)
    start = pd.Timestamp("2026-11-01") + pd.Timedelta(days=number // 2)
    frames = [
        pd.DataFrame(
            {"episode_id": f"{number}-{one.id}", "time": start + pd.to_timedelta(np.arange(48) * 10, unit="ms")}
        ).assign(**dict(zip(episodes.sensors, one.values, strict=True)))
        for one in episodes
    ]
    table = pd.concat(frames)
    return table if machine is None else table.assign(machine=machine)


def write_fleet(folder: Path, files: int, **options: Any) -> Path:
    """Write files of six recordings each, from two machines."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        part(number, f"00{number % 2}", **options).to_csv(folder / f"part{number:03}.csv", index=False)
    return folder


def rows_of(results: Path | str) -> pd.DataFrame:
    """What users read: the rows of all parts, in order of their ids."""
    frame = pd.read_parquet(results)
    assert {"machine", "episode_id", "probability", "anomalous"} <= {*frame.columns}
    return frame.sort_values(["file", "episode_id"], ignore_index=True)
