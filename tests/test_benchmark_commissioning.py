"""The benchmark of commissioning judges no recording with a baseline that contains it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import commissioning
from dfstrans import Episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes

ROWS = {"a": np.arange(30), "b": np.arange(30, 57)}
JUDGED = [*range(20, 30), *range(50, 57)]


@pytest.mark.parametrize("protocol", commissioning.SIZES)
@pytest.mark.parametrize("n", [0, 5, 20])
def test_no_recording_is_in_its_own_baseline(protocol: str, n: int) -> None:
    parts = commissioning._baselines(ROWS, protocol, n, np.random.default_rng(0))
    assert sorted(np.concatenate([part for part, _ in parts])) == JUDGED
    for part, baseline in parts:
        assert not set(part) & set(baseline)
        assert len(set(baseline)) == len(baseline)
        assert [len(set(baseline) & set(own)) for own in ROWS.values()] == [n, n]


def test_the_latest_recordings_before_the_judged_ones_are_used() -> None:
    ((_, baseline),) = commissioning._baselines(ROWS, "before", 3, np.random.default_rng(0))
    assert baseline.tolist() == [17, 18, 19, 47, 48, 49]


def test_the_benchmark_writes_every_split_and_draws_the_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = planted_episodes(130, 70, n_sensors=2, n_timepoints=40)
    groups = [f"m{row % 8}" for row in range(len(base))]
    save_episodes(Episodes.from_arrays(np.asarray(base.values), base.labels, groups=groups), tmp_path / "fleet.npz")
    files = ("--results", str(tmp_path / "r.jsonl"), "--figure", str(tmp_path / "f.svg"))
    given = ["commissioning", str(tmp_path / "fleet.npz"), "--splits", "2", "--trees", "5", *files]
    monkeypatch.setattr("sys.argv", given)
    monkeypatch.setattr("torch.set_num_threads", lambda n: None)  # other tests keep theirs
    commissioning.main()
    splits = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [one["seed"] for one in splits] == [0, 1]
    assert all(one["before"]["0"] == one["whole period"]["0"] for one in splits)
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")
    printed = capsys.readouterr().out
    assert f"before 0          {np.mean([one['before']['0'] for one in splits]):.3f}" in printed
