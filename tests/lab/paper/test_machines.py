"""The table of machines that were seen and of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans import DfstransError, Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.lab.compare.grid import Comparison, Grid, compute_runs
from dfstrans.lab.paper.machines import COLUMNS
from dfstrans.lab.paper.request import Request
from dfstrans.lab.paper.targets import reproduce

STORED = Path(__file__).parents[3] / "results"
MODELS = ("trees+trees=5+segment_length=16", "boosting+trees=2")


def nothing(comparison: Comparison) -> dict[str, str]:
    raise AssertionError(f"expected no computation, got {comparison}")


def test_each_protocol_and_baseline_has_a_table(tmp_path: Path) -> None:
    base = planted_episodes(40, 30, n_sensors=2, n_timepoints=48)
    journeys = Episodes.from_arrays(np.asarray(base.values), base.labels, groups=[f"m{row % 7}" for row in range(70)])
    computed: list[str] = []

    def compute(comparison: Comparison) -> dict[str, str]:
        grid = Grid(comparison, journeys)
        return compute_runs(grid, begin=lambda key: computed.append(f"{key.split} {key.baseline}"))

    request = Request("machines", tmp_path, tmp_path, ("elevator",), models=MODELS, folds=1, compute=compute)
    outcome = reproduce(request)
    tables = [table for table in outcome.tables if table.columns == COLUMNS]
    titles = [table.title.removeprefix("machines, protocol ") for table in tables]
    assert titles == [*outcome.content["protocols"]]
    assert titles == ["no-overlap", "grouped, baseline own", "grouped, baseline first", "grouped"]
    assert computed == ["random none"] * 2 + ["grouped own"] * 2  # one training for all baselines
    for table in tables:
        assert [row[:3] for row in table.rows] == [("Elevator", model, "1 of 1") for model in MODELS]
    assert any(f"Elevator: {MODELS[1]} compares no test machine with itself" in note for note in tables[1].notes)


def test_stored_table_is_that_of_the_stored_runs() -> None:
    outcome = reproduce(Request("machines", STORED, finished=True, compute=nothing))
    written = (STORED / "machines.md").read_text(encoding="utf-8")
    remedy = "dfstrans reproduce machines --finished --out results writes it again"
    assert "\n".join(table.to_markdown() for table in outcome.tables) == written, remedy


@pytest.mark.parametrize("protocol", ["no-overlap", "grouped"])
def test_only_requested_protocols_are_shown(protocol: str) -> None:
    request = Request("machines", STORED, protocols=(protocol,), finished=True, compute=nothing)  # type: ignore[arg-type]
    assert all(title.startswith(protocol) for title in reproduce(request).content["protocols"])


def test_protocol_with_leakage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="among no-overlap, grouped, got paper-like"):
        reproduce(Request("machines", tmp_path, protocols=("paper-like",), compute=nothing))
