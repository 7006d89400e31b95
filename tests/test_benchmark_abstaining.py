"""The benchmark of abstaining sorts by novelty and counts errors at the model's threshold."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import abstaining
from dfstrans import Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.compare.protocols import splits_of


def test_risks_are_those_of_the_least_unlike_recordings() -> None:
    test = Episodes.from_arrays(np.zeros((10, 1, 4)), [0, 1] * 5)
    wrong, novelty = np.arange(10) >= 6, np.linspace(0.1, 1.9, 10)  # the unlike ones are wrong
    detector = SimpleNamespace(
        novelty=lambda _: novelty[::-1], predict=lambda one: np.where(wrong[::-1], 1 - one.labels, one.labels)
    )
    found = abstaining.risks(detector, test)  # type: ignore[arg-type]
    assert found["risk"] == {"1": 0.4, "0.9": pytest.approx(3 / 9), "0.8": 0.25, "0.7": pytest.approx(1 / 7)} | {
        "0.6": 0,
        "0.5": 0,
    }
    assert (found["seen"], found["not_seen"]) == (0, pytest.approx(4 / 5))
    assert found["share_of_normal"] + found["share_of_anomalous"] == pytest.approx(1)


def test_each_protocol_is_measured_and_drawn(tmp_path: Path) -> None:
    base = planted_episodes(90, 50, n_sensors=2, n_timepoints=40)
    groups = [f"m{row % 8}" for row in range(len(base))]
    episodes = Episodes.from_arrays(np.asarray(base.values), base.labels, groups=groups)
    found = []
    for kind in ("grouped", "random"):
        (split,) = splits_of(episodes, kind, 1, 0)
        found += abstaining.measure(episodes, split, known=kind == "random", trees=5)
    assert [one["protocol"] for one in found] == [abstaining.GROUPED, abstaining.OWN, abstaining.KNOWN]
    named = [{"data": "smd", **one} for one in found]
    abstaining.draw(named, tmp_path / "f.svg")
    assert (tmp_path / "f.svg").read_text().startswith("<?xml")
    assert f"| SMD | grouped | {found[0]['risk']['1']:.3f} |" in abstaining.table(named)
