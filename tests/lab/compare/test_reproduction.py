"""The paper's tables and figures: counts to the unit, printed figures beside ours, protocols by name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dfstrans.data.episodes import Episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.compare.grid import Comparison, Grid
from dfstrans.lab.compare.runs import cell_path, read_cell
from dfstrans.lab.compare.variants import check_models, recorded_settings
from dfstrans.lab.paper import reproduce
from dfstrans.lab.paper.datasets import data_folder, place_of, results_folder
from dfstrans.lab.paper.detection import detection_table, finished_cells
from dfstrans.lab.paper.parameters import counts, counts_by_sensors
from dfstrans.lab.paper.printed import (
    DETECTION,
    DIAGNOSES,
    ENCODINGS,
    NO_RESULT,
    PANELS,
    RESULTS,
    TARGETS,
    figure_or_table,
    printed_for,
)
from dfstrans.lab.paper.request import Request
from tests.cli.command_line import run

DFSTRANS = [sys.executable, "-m", "dfstrans"]
RESULTS_KEPT = Path(__file__).parents[3] / "docs" / "results"


def nothing(comparison: Comparison) -> dict[str, str]:
    raise AssertionError(f"nothing was to be computed, but {comparison}")


# ---- counts -------------------------------------------------------------------------------------------------------


def test_all_counts_but_two_slips_equal_the_printed_ones_to_the_unit() -> None:
    found = {(count.model, count.data): count for count in counts()}
    assert len(found) == 20
    differing = {place: count.parameters for place, count in found.items() if not count.agrees}
    assert differing == {("dfstrans", "smd"): 3_079_913, ("mh1dcnn-lstm", "msl"): 3_813_385}  # FACTS: slips
    assert all(found[place].note for place in differing)
    assert found["dfstrans", "elevator"].parameters == 3_878_033
    assert found["mh1dcnn-lstm", "elevator"].parameters == 20_764_385


def test_all_counts_by_sensors_equal_the_printed_ones() -> None:
    assert len(counts_by_sensors()) == 8
    assert all(count.agrees for count in counts_by_sensors())


def test_the_command_prints_the_counts_as_json_and_writes_nothing(tmp_path: Path) -> None:
    command = [*DFSTRANS, "reproduce", "tab:timeparams", "--counts-only", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    rows = json.loads(done.stdout)["counts"]
    expected = {"model": "tapnet", "data": "smap", "parameters": 1_334_394, "printed": 1_334_394}
    assert {**expected, "note": "", "equal": True} in rows
    assert sum(row["equal"] for row in rows) == 18
    assert list(tmp_path.iterdir()) == []


# ---- targets ------------------------------------------------------------------------------------------------------


def test_without_a_label_the_targets_are_listed() -> None:
    done = subprocess.run([*DFSTRANS, "reproduce"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [*TARGETS, *NO_RESULT]


def test_an_unknown_label_gets_the_known_ones_and_a_guess(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"tab:linear_comp.*got 'tab:qresult'; did you mean tab:qresults\?"):
        reproduce(Request("tab:qresult", tmp_path), nothing)


def test_counts_only_is_for_tables_of_counts(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="table of parameters for counts_only=True, got fig:pe_comparisons"):
        reproduce(Request("fig:pe_comparisons", tmp_path, counts_only=True), nothing)


@pytest.mark.parametrize("target", [name for name in TARGETS if name.startswith("fig:") and name not in DIAGNOSES])
def test_a_figure_is_written_for_print_with_how_it_was_made_beside_it(target: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    outcome = reproduce(Request(target, tmp_path), nothing)
    name = target.replace(":", "_")
    assert [path.name for path in outcome.written] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png", "json")]
    assert all(path.stat().st_size > 1000 for path in outcome.written)
    record = json.loads(outcome.written[-1].read_text())
    assert record["command"] == f"dfstrans reproduce {target} --out RESULTS"
    assert {"seed", "commit", "versions"} <= set(record)


PAPER = """
    fig:st_transformer fig:notation fig:st_att fig:frequencyRatio fig:reconstruction_comparison tab:elevator
    tab:qresults tab:qresults_pe fig:PAJ38 fig:GSRPAJ38 fig:lsa_t34 fig:lsa_t58 fig:lsa_t75 fig:lsa fig:mix1 fig:mix2
    fig:mix3 fig:mix4 fig:mix5 fig:mix fig:paj_ax_local fig:paj_ay_local fig:paj_id_local fig:lta fig:PAJ_AT fig:FJ_AT
    fig:at_scores fig:elevator fig:1d_multihead tab:mh1dcnn tab:linear_comp fig:vanilla_pe fig:dft_pe fig:pe_comparisons
    tab:trans_hyp tab:hyp_benchmark tab:timeparams tab:n_params_s fig:n_param_s
"""


def test_every_label_of_the_paper_has_a_target_or_is_said_to_show_no_result() -> None:
    panels = {part for parts in PANELS.values() for part in parts}
    assert {*TARGETS, *panels, *NO_RESULT} - {"ablation"} == set(PAPER.split())
    assert figure_or_table("fig:lsa_t58") == "fig:lsa"


def test_only_what_is_listed_is_suggested() -> None:
    with pytest.raises(DfstransError) as caught:
        figure_or_table("fig:foo")
    listed, suggested = str(caught.value).split("; ")
    assert "fig:notation" not in suggested
    assert all(word.strip("?") in listed for word in suggested.split() if word.startswith(("fig:", "tab:")))


def test_the_counts_say_whose_network_they_are_of(tmp_path: Path) -> None:
    (table,) = reproduce(Request("tab:timeparams", tmp_path, counts_only=True), nothing).tables
    assert "dfstrans here is the paper's network, which `dfstrans compare` calls dfstrans-paper." in table.notes


def test_a_drawing_is_no_unknown_label(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="got fig:notation, which is a drawing of the notation, nothing to compute"):
        reproduce(Request("fig:notation", tmp_path), nothing)


def test_what_a_target_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match="expected seeds with ablation only, got it with tab:qresults"):
        reproduce(Request("tab:qresults", tmp_path, seeds=2), nothing)
    with pytest.raises(
        DfstransError, match=r"expected model with figures of diagnoses \(fig:lsa.*got it with ablation"
    ):
        reproduce(Request("ablation", tmp_path, model=tmp_path), nothing)


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        ("data_sets", {"data_sets": ("smd",)}),
        ("protocol", {"protocols": ("grouped",)}),
        ("models", {"models": ("boosting",)}),
        ("folds", {"folds": 2}),
        ("threads", {"threads": 1}),
    ],
)
@pytest.mark.parametrize("target", ["fig:lsa", "fig:frequencyRatio", "tab:n_params_s"])
def test_what_only_tables_of_detection_have_is_refused(
    target: str, setting: str, given: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(
        DfstransError, match=f"expected {setting} with tables of detection only, got it with {target}.*leave it out"
    ):
        reproduce(Request(target, tmp_path, **given), nothing)


def test_seconds_are_of_one_split_and_counts_of_none(tmp_path: Path) -> None:
    refused: list[dict[str, Any]] = [{"folds": 2}, {"protocols": ("grouped",)}, {"threads": 1, "counts_only": True}]
    for given in refused:
        with pytest.raises(DfstransError, match="got it with tab:timeparams"):
            reproduce(Request("tab:timeparams", tmp_path, **given), nothing)


def test_every_model_of_every_table_is_known() -> None:
    for table in DETECTION.values():
        check_models(table.models)


def test_what_is_printed_is_found_for_variants_that_differ_in_training_only() -> None:
    assert printed_for("dfstrans-plain+epochs=10", RESULTS["smd"]) == RESULTS["smd"]["dfstrans"]
    assert printed_for("dfstrans-paper", RESULTS["smd"]) == RESULTS["smd"]["dfstrans"]
    assert printed_for("inceptiontime-long", RESULTS["elevator"]) == RESULTS["elevator"]["inceptiontime"]
    assert printed_for("dfstrans-paper-vanilla", ENCODINGS["msl"]) == ENCODINGS["msl"]["dfstrans-vanilla"]
    assert printed_for("boosting", RESULTS["smd"]) is None


# ---- data ---------------------------------------------------------------------------------------------------------


def test_absent_data_are_told_of_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        DfstransError,
        match=r"telemanom/ in .* for MSL.*github.com/khundman/telemanom.*data=….*DFSTRANS_DATA.*data_sets",
    ):
        place_of("msl", "grouped", tmp_path, "small")


def test_protocols_cut_and_split_as_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "telemanom").mkdir()
    strides = {name: place_of("smap", name, tmp_path, "small").read for name in ("paper-like", "no-overlap", "grouped")}
    assert strides["paper-like"] == {"spacecraft": "SMAP", "length": 500, "stride": 50}
    assert strides["no-overlap"] == strides["grouped"] == {"spacecraft": "SMAP", "length": 500, "stride": 500}
    assert results_folder(Path("r"), "smap", "paper-like", "small") == Path("r/smap_paper-like")
    journeys = results_folder(Path("r"), "elevator", "paper-like", "small")
    assert journeys == Path("r/elevator_small_no-overlap")  # journeys cannot overlap


def test_the_data_folder_is_given_or_named_or_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFSTRANS_DATA", "/named")
    monkeypatch.setenv("XDG_CACHE_HOME", "/own")
    assert data_folder(Path("/given")) == Path("/given")
    assert data_folder(None) == Path("/named")
    monkeypatch.delenv("DFSTRANS_DATA")
    assert data_folder(None) == Path("/own/dfstrans")


# ---- tables of detection --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as of `reproduce`, with one cell that boosting has on journeys; not to be changed."""
    out = tmp_path_factory.mktemp("out")
    compute(Comparison(Path("elevator_small.h5"), out / "elevator_small_no-overlap", ("boosting",), folds=1))
    return out


def journeys() -> Episodes:
    return planted_episodes(40, 20, n_sensors=2, n_timepoints=48)


def compute(comparison: Comparison) -> dict[str, str]:
    return Grid(comparison, journeys()).work()


def test_a_table_stands_beside_what_is_printed_and_names_its_protocol(cells: Path) -> None:
    request = Request("tab:qresults", cells, data_sets=("elevator",), models=("boosting", "tapnet"), finished=True)
    outcome = reproduce(request, nothing)
    paper_like, no_overlap, grouped = (table for table in outcome.tables if table.title.startswith("tab:"))
    assert paper_like.title == "tab:qresults, protocol paper-like"
    assert grouped.title == "tab:qresults, protocol grouped"
    boosting, tapnet = (dict(zip(no_overlap.columns, row, strict=True)) for row in no_overlap.rows)
    found = read_cell(cell_path(cells / "elevator_small_no-overlap", "boosting", 0))
    assert boosting["F1"] == f"{found.test['f1']:.3f}"
    assert boosting["splits"] == "1 of 5"
    assert boosting["F1 printed"] == "–"
    assert (tapnet["F1"], tapnet["P printed"], tapnet["F1 printed"]) == ("–", "0.398", "0.510")
    assert any("simulator" in note for note in no_overlap.notes)
    assert json.dumps(outcome.content, allow_nan=False)


@pytest.mark.parametrize("label", ["tab:qresults", "tab:qresults_pe"])
def test_the_table_of_the_documents_is_that_of_their_cells(label: str) -> None:
    outcome = reproduce(Request(label, RESULTS_KEPT, finished=True), nothing)
    kept = (RESULTS_KEPT / f"{label.replace(':', '_')}.md").read_text(encoding="utf-8")
    remedy = f"dfstrans reproduce {label} --finished --out docs/results writes it anew"
    assert "\n".join(table.to_markdown() for table in outcome.tables) == kept, remedy


def test_a_part_of_what_is_finished_is_shown_and_does_not_replace_the_whole(cells: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    shutil.copytree(cells, place)
    command = ["reproduce", "tab:qresults", "--finished", "--out", place]
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    whole = (place / "tab_qresults.md").read_text()
    for part in (["--data-sets", "elevator"], ["--protocol", "no-overlap"], ["--models", "boosting"], ["--folds", "1"]):
        code, out, err = run(*command, *part)
        assert code == 0, err
        assert f"only shown, not written: a part of tab:qresults, chosen by {part[0]};" in err
        assert "boosting" in out
        assert "written   " not in out
        assert (place / "tab_qresults.md").read_text() == whole


def test_a_part_that_is_computed_does_not_replace_the_whole_either(tmp_path: Path) -> None:
    whole, part = Request("tab:qresults", tmp_path), Request("tab:qresults", tmp_path, models=("boosting",))
    assert not part.only_shown  # there is nothing to replace
    whole.table.write_text("the whole")
    assert part.only_shown
    assert replace(part, models=None, folds=3).only_shown
    for written in (whole, replace(part, quick=True), replace(part, models=None, folds=10)):
        assert not written.only_shown
    ablation = Request("ablation", tmp_path, data_sets=("smd",))  # not a part of what it has by default
    ablation.table.write_text("of the elevator")
    assert not ablation.only_shown


def test_a_part_of_an_ablation_is_not_drawn(cells: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    shutil.copytree(cells, place)
    for model in ("dfstrans", "dfstrans+mixup=0"):
        pretend(place / "elevator_small_no-overlap", model)
    before = sorted(place.rglob("*"))
    part = Request("ablation", place, models=("dfstrans+mixup=0",), finished=True, overrides={"seed": 0})
    assert [row[2] for row in reproduce(part, nothing).tables[0].rows] == ["1 of 5", "1 of 5"]
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("target", ["tab:qresults", "tab:timeparams", "ablation"])
def test_where_no_cell_is_finished_nothing_is_shown_or_written(target: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    code, out, err = run("reproduce", target, "--finished", "--out", place)
    assert (code, out) == (2, "")
    assert f"expected finished cells in {place}, got none; leave out --finished to compute them" in err
    assert not place.exists()


def pretend(folder: Path, model: str) -> None:
    """A cell of this model, with the figures of another."""
    cell = read_cell(cell_path(folder, "boosting", 0))
    changed = cell.model_copy(update={"model": model, "settings": recorded_settings(model, {})})
    cell_path(folder, model, 0).parent.mkdir()
    cell_path(folder, model, 0).write_text(changed.model_dump_json())


def test_no_more_splits_are_shown_than_were_asked_for(cells: Path, tmp_path: Path) -> None:
    shutil.copytree(cells, tmp_path / "out")
    folder = tmp_path / "out" / "elevator_small_no-overlap"
    shutil.copy(cell_path(folder, "boosting", 0), cell_path(folder, "boosting", 1))
    assert len(finished_cells(folder, ["boosting"], 1, {})) == 1
    assert len(finished_cells(folder, ["boosting"], 2, {})) == 2


def test_a_finished_cell_of_other_settings_is_not_shown_as_the_model(cells: Path, tmp_path: Path) -> None:
    shutil.copytree(cells, tmp_path / "out")
    folder = tmp_path / "out" / "elevator_small_no-overlap"
    path = cell_path(folder, "boosting", 0)
    cell = read_cell(path)
    path.write_text(cell.model_copy(update={"settings": {**cell.settings, "trees": 2}}).model_dump_json())
    with pytest.raises(DfstransError, match="trees=2 instead of 300"):
        finished_cells(folder, ["boosting"], 1, {})
    assert len(finished_cells(folder, ["boosting"], 1, {"trees": 2})) == 1


def test_a_cell_that_is_older_than_a_setting_of_a_preset_is_not_of_that_preset(cells: Path, tmp_path: Path) -> None:
    shutil.copytree(cells, tmp_path / "out")
    folder = tmp_path / "out" / "elevator_small_no-overlap"
    pretend(folder, "dfstrans-paper")
    path = cell_path(folder, "dfstrans-paper", 0)
    cell = read_cell(path)
    older = {name: value for name, value in cell.settings.items() if name != "select_by"}
    path.write_text(cell.model_copy(update={"settings": older}).model_dump_json())
    with pytest.raises(DfstransError, match="select_by='pr-auc' instead of 'loss'"):
        finished_cells(folder, ["dfstrans-paper"], 1, {})


def test_what_is_finished_is_shown_under_whatever_name_it_has(cells: Path, tmp_path: Path) -> None:
    shutil.copytree(cells, tmp_path / "out")
    folder = tmp_path / "out" / "elevator_small_no-overlap"
    pretend(folder, "tapnet+epochs=3")
    chosen = Request(
        "tab:qresults", tmp_path / "out", data_sets=("elevator",), protocols=("no-overlap",), finished=True
    )
    table, tests = reproduce(chosen, nothing).tables
    assert [row[1] for row in table.rows][-3:] == ["boosting", "neighbours", "tapnet+epochs=3"]
    assert tests.title.startswith("boosting against each rival")


def test_a_table_shows_no_finished_model_that_is_not_of_its_kind(cells: Path, tmp_path: Path) -> None:
    shutil.copytree(cells, tmp_path / "out")
    folder = tmp_path / "out" / "elevator_small_no-overlap"
    for name in ("dfstrans-vanilla+epochs=3", "dfstrans-linear", "minirocket", "tapnet-plain"):
        pretend(folder, name)

    def shown(target: str) -> list[str]:
        chosen = Request(target, tmp_path / "out", data_sets=("elevator",), protocols=("no-overlap",), finished=True)
        return [row[1] for row in reproduce(chosen, nothing).tables[0].rows]

    assert shown("tab:qresults_pe") == ["dfstrans", "dfstrans-vanilla", "dfstrans-vanilla+epochs=3"]
    assert shown("tab:linear_comp") == ["dfstrans", "dfstrans+quantile_features=0", "dfstrans-linear", "dfstrans-tanh"]
    assert shown("tab:qresults")[-4:] == ["boosting", "neighbours", "minirocket", "tapnet-plain"]


def test_cells_that_are_there_are_taken_and_the_others_computed_once(cells: Path, tmp_path: Path) -> None:
    shutil.copytree(cells, tmp_path / "out")
    asked: list[Comparison] = []

    def count(comparison: Comparison) -> dict[str, str]:
        asked.append(comparison)
        return compute(comparison)

    models = ("boosting",)
    request = Request("tab:qresults", tmp_path / "out", tmp_path, ("elevator",), ("no-overlap",), models, folds=2)
    for _ in range(2):
        outcome = reproduce(request, count)
    assert outcome.tables[0].rows[0][2] == "2 of 2"
    assert [one.data for one in asked] == [tmp_path / "elevator_small.h5"] * 2
    old, new = (root / "elevator_small_no-overlap" for root in (cells, tmp_path / "out"))
    assert cell_path(old, "boosting", 0).read_bytes() == cell_path(new, "boosting", 0).read_bytes()


@pytest.mark.parametrize("target", ["tab:qresults", "tab:timeparams", "ablation"])
def test_recordings_that_are_not_there_are_missed_before_anything_is_computed(target: str, tmp_path: Path) -> None:
    def too_late(comparison: Comparison) -> dict[str, str]:
        raise AssertionError(comparison.data)

    request = Request(target, tmp_path / "out", tmp_path, ("elevator", "smd"))
    with pytest.raises(DfstransError, match=r"expected ServerMachineDataset/ in .* got no such folder"):
        reproduce(request, too_late)


def test_a_quick_look_says_that_it_is_no_result_and_is_kept_apart(tmp_path: Path) -> None:
    request = Request("tab:qresults", tmp_path, tmp_path, ("elevator",), models=("boosting",), quick=True)

    def few(comparison: Comparison) -> dict[str, str]:
        assert comparison.at_most == 60
        return Grid(comparison, planted_episodes(80, 40, n_sensors=2, n_timepoints=48)).work()

    outcome = reproduce(request, few)
    assert outcome.tables[0].title == "QUICK LOOK, NO RESULT: tab:qresults, protocol paper-like"
    (cell,) = finished_cells(tmp_path / "quick" / "elevator_small_no-overlap", ["boosting"], 1, {})
    assert (cell.data.episodes, cell.data.anomalous) == (60, 30)
    assert not (tmp_path / "elevator_small_no-overlap").exists()


def test_cells_of_two_kinds_in_one_folder_are_refused(cells: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(cells / "elevator_small_no-overlap", folder)
    cell = read_cell(cell_path(folder, "boosting", 0))
    other = cell.model_copy(update={"protocol": cell.protocol.model_copy(update={"seed": 1})})
    cell_path(folder, "boosting", 1).write_text(other.model_dump_json())
    with pytest.raises(DfstransError, match=r"same recordings and splits.*got 2 kinds"):
        finished_cells(folder, ["boosting"], 2, {})


def test_a_spread_that_the_paper_prints_stands_in_the_table() -> None:
    from dfstrans.lab.compare.comparison import ComparisonResult

    table = detection_table("tab:linear_comp", "no-overlap", {"elevator": ComparisonResult(("dfstrans-tanh",), (), 5)})
    assert "0.912 ± 0.030" in table.rows[0]
    assert table.to_markdown().startswith("**tab:linear_comp, protocol no-overlap**\n\n| data | model |")


def test_times_stand_beside_the_counts(tmp_path: Path) -> None:
    models = ("mh1dcnn-lstm",)
    request = Request("tab:timeparams", tmp_path, tmp_path, ("elevator",), models=models, overrides={"epochs": 1})
    outcome = reproduce(request, compute)
    (table,) = outcome.tables
    rows = {(row[0], row[1]): dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert float(rows["mh1dcnn-lstm", "elevator"]["s / epoch"]) >= 0
    assert rows["mh1dcnn-lstm", "elevator"]["s / epoch printed"] == "73.48"
    assert rows["dfstrans", "elevator"]["s / epoch"] == "–"
    assert {data for _, data in rows} == {"elevator"}
    assert {count["data"] for count in outcome.content["counts"]} == {"elevator"}
    assert (tmp_path / "timing_elevator_small_no-overlap" / "mh1dcnn-lstm" / "fold_0.json").exists()
