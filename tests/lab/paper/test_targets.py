"""Labels of the paper, counts to the unit, data sets, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Comparison
from dfstrans.lab.compare.variants import check_models
from dfstrans.lab.paper.parameters import counts, counts_by_sensors
from dfstrans.lab.paper.printed import DETECTION, ENCODINGS, RESULTS, printed_for
from dfstrans.lab.paper.request import Request, data_folder, recordings_of, store_path
from dfstrans.lab.paper.targets import TARGETS, WITHOUT_RESULT, reproduce, table_path, target_of, would_replace
from tests.cli.command_line import output_of, result_of


def nothing(comparison: Comparison) -> dict[str, str]:
    raise AssertionError(f"expected no computation, got {comparison}")


# ---- counts ---------------------------------------------------------------------------------------------------------


def test_all_counts_but_two_slips_equal_the_printed_ones() -> None:
    found = {(count.model, count.data): count for count in counts()}
    assert len(found) == 20
    differing = {place: count.parameters for place, count in found.items() if not count.agrees}
    assert differing == {("dfstrans", "smd"): 3_079_913, ("mh1dcnn-lstm", "msl"): 3_813_385}
    assert all(found[place].note for place in differing)
    assert found["dfstrans", "elevator"].parameters == 3_878_033
    assert found["mh1dcnn-lstm", "elevator"].parameters == 20_764_385
    assert len(counts_by_sensors()) == 8
    assert all(count.agrees for count in counts_by_sensors())


def test_command_prints_the_counts_as_json_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = result_of("reproduce", "tab:timeparams", "--counts-only")["counts"]
    expected = {"model": "tapnet", "data": "smap", "parameters": 1_334_394, "printed": 1_334_394}
    assert {**expected, "note": "", "equal": True} in rows
    assert sum(row["equal"] for row in rows) == 18
    assert list(tmp_path.iterdir()) == []


def test_counts_name_their_network(tmp_path: Path) -> None:
    (table,) = reproduce(Request("tab:timeparams", tmp_path, counts_only=True)).tables
    assert any("dfstrans here is the paper's network" in note for note in table.notes)


# ---- labels ---------------------------------------------------------------------------------------------------------

PAPER = """
    fig:st_transformer fig:notation fig:st_att fig:frequencyRatio fig:reconstruction_comparison tab:elevator
    tab:qresults tab:qresults_pe fig:PAJ38 fig:GSRPAJ38 fig:lsa_t34 fig:lsa_t58 fig:lsa_t75 fig:lsa fig:mix1 fig:mix2
    fig:mix3 fig:mix4 fig:mix5 fig:mix fig:paj_ax_local fig:paj_ay_local fig:paj_id_local fig:lta fig:PAJ_AT fig:FJ_AT
    fig:at_scores fig:elevator fig:1d_multihead tab:mh1dcnn tab:linear_comp fig:vanilla_pe fig:dft_pe fig:pe_comparisons
    tab:trans_hyp tab:hyp_benchmark tab:timeparams tab:n_params_s fig:n_param_s
"""


def test_every_label_of_the_paper_has_a_target_or_shows_no_result() -> None:
    panels = {panel for target in TARGETS.values() for panel in target.panels}
    assert {*TARGETS, *panels, *WITHOUT_RESULT} - {"ablation", "machines"} == set(PAPER.split())
    assert target_of("fig:lsa_t58") == "fig:lsa"


def test_without_a_label_the_targets_are_listed() -> None:
    listed, _ = output_of("reproduce")
    assert [line.split()[0] for line in listed.splitlines()] == [*TARGETS, *WITHOUT_RESULT]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("tab:qresult", r"tab:linear_comp.*got 'tab:qresult'; did you mean tab:qresults\?"),
        ("fig:notation", "which is a drawing of the notation, nothing to compute"),
    ],
)
def test_label_without_a_target_is_refused(label: str, message: str) -> None:
    with pytest.raises(DfstransError, match=message):
        target_of(label)


@pytest.mark.parametrize("target", [name for name in TARGETS if name.startswith("fig:") and not TARGETS[name].options])
def test_figure_is_written_for_print_with_a_record(target: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    outcome = reproduce(Request(target, tmp_path, compute=nothing))
    name = target.replace(":", "_")
    assert [path.name for path in outcome.written] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png", "json")]
    assert all(path.stat().st_size > 1000 for path in outcome.written)
    record = json.loads(outcome.written[-1].read_text())
    assert record["command"] == f"dfstrans reproduce {target} --out RESULTS"
    assert {"seed", "commit", "versions"} <= set(record)


# ---- options --------------------------------------------------------------------------------------------------------

GIVEN: dict[str, dict[str, Any]] = {
    "data_sets": {"data_sets": ("smd",)},
    "protocol": {"protocols": ("grouped",)},
    "models": {"models": ("boosting",)},
    "folds": {"folds": 2},
    "threads": {"threads": 1},
    "seeds": {"seeds": 2},
    "model": {"model": Path("model")},
    "counts_only": {"counts_only": True},
}


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        ("fig:lsa", {*GIVEN} - {"model"}),
        ("fig:frequencyRatio", {*GIVEN}),
        ("tab:n_params_s", {*GIVEN} - {"counts_only"}),
        ("tab:qresults", {"seeds", "model", "counts_only"}),
        ("ablation", {"model", "counts_only"}),
        ("tab:timeparams", {"folds", "protocol", "seeds", "model"}),
    ],
)
def test_options_that_a_target_does_not_have_are_refused(target: str, refused: set[str], tmp_path: Path) -> None:
    for name in refused:
        with pytest.raises(DfstransError, match=f"expected {name} only with .*, got it with {target}; omit it"):
            reproduce(Request(target, tmp_path, compute=nothing, **GIVEN[name]))


def test_counts_need_no_data(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"expected threads only with .* with times, got it with tab:timeparams"):
        reproduce(Request("tab:timeparams", tmp_path, threads=1, counts_only=True))


def test_part_of_a_table_does_not_replace_the_whole(tmp_path: Path) -> None:
    whole, part = Request("tab:qresults", tmp_path), Request("tab:qresults", tmp_path, models=("boosting",))
    assert not would_replace(part)  # there is nothing to replace
    table_path(whole).write_text("the whole")
    assert would_replace(part)
    assert would_replace(replace(part, models=None, folds=3))
    for written in (whole, replace(part, quick=True), replace(part, models=None, folds=10)):
        assert not would_replace(written)
    ablation = Request("ablation", tmp_path, data_sets=("smd",))  # not a part of its default
    table_path(ablation).write_text("of the elevator")
    assert not would_replace(ablation)


# ---- models and data ------------------------------------------------------------------------------------------------


def test_every_model_of_every_table_is_known() -> None:
    for table in DETECTION.values():
        check_models(table.models)


def test_training_variants_share_the_printed_metrics_of_their_model() -> None:
    assert printed_for("dfstrans-plain+epochs=10", RESULTS["smd"]) == RESULTS["smd"]["dfstrans"]
    assert printed_for("dfstrans-paper", RESULTS["smd"]) == RESULTS["smd"]["dfstrans"]
    assert printed_for("inceptiontime-long", RESULTS["elevator"]) == RESULTS["elevator"]["inceptiontime"]
    assert printed_for("dfstrans-paper-vanilla", ENCODINGS["msl"]) == ENCODINGS["msl"]["dfstrans-vanilla"]
    assert printed_for("boosting", RESULTS["smd"]) is None


def test_absent_data_are_refused_with_the_remedy(tmp_path: Path) -> None:
    message = r"telemanom/ in .* for MSL.*github.com/khundman/telemanom.*data=….*DFSTRANS_DATA.*data_sets"
    with pytest.raises(DfstransError, match=message):
        recordings_of("msl", "grouped", tmp_path, "small")


def test_protocols_cut_as_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "telemanom").mkdir()
    protocols = ("paper-like", "no-overlap", "grouped")
    strides = {name: recordings_of("smap", name, tmp_path, "small").read for name in protocols}
    assert strides["paper-like"] == {"spacecraft": "SMAP", "length": 500, "stride": 50}
    assert strides["no-overlap"] == strides["grouped"] == {"spacecraft": "SMAP", "length": 500, "stride": 500}
    assert store_path(Path("r"), "smap", "paper-like", "small") == Path("r/smap_paper-like.jsonl")
    journeys = store_path(Path("r"), "elevator", "paper-like", "small")
    assert journeys == Path("r/elevator_small_no-overlap.jsonl")  # journeys cannot overlap


def test_data_folder_is_the_given_one_or_the_variable_or_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFSTRANS_DATA", "/named")
    monkeypatch.setenv("XDG_CACHE_HOME", "/own")
    assert data_folder(Path("/given")) == Path("/given")
    assert data_folder(None) == Path("/named")
    monkeypatch.delenv("DFSTRANS_DATA")
    assert data_folder(None) == Path("/own/dfstrans")
