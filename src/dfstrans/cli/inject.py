"""`dfstrans inject`: estimate detection and diagnosis on a machine without labelled faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dfstrans.cli.options import options_from, reading, setting_options, warn_of_guessing
from dfstrans.cli.output import (
    INTERRUPTED,
    AsJson,
    print_columns,
    print_json,
    print_result,
    progress,
    remark,
    warn_of_overlap,
)
from dfstrans.cli.train import model_written_at
from dfstrans.data.readers import load_episodes
from dfstrans.lab.injection.settings import KINDS, THRESHOLD, InjectionSettings, example
from dfstrans.settings import Preset, command_options

if TYPE_CHECKING:  # a wrong option is reported before torch loads
    from dfstrans.lab.injection.study import StudyResult

EXAMPLE = "Example: dfstrans inject normal_recordings.csv --report study --strength 1,3 --strength lag=5,20"

app = typer.Typer(add_completion=False)
OWN_UNITS = "; ".join(f"{example(kind)} ({KINDS[kind].unit})" for kind in ("stuck", "dropout", "lag", "coupling-loss"))

fault_options = options_from(
    InjectionSettings, into="injection", exclude=("kinds", "strengths", "seed"), panel="Faults"
)


@app.command(epilog=EXAMPLE)
@reading
@fault_options
@setting_options(defaults=THRESHOLD)
def inject(
    data: Annotated[Path, typer.Argument(help="File or folder of normal recordings.", show_default=False)],
    read: dict[str, Any],
    injection: dict[str, Any],
    settings: dict[str, Any],
    out: Annotated[
        Path | None, typer.Option("--out", help="HDF5 file of episodes with faults to write.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Folder for the trained model and its report (default without --out: DATA_study).",
            show_default=False,
        ),
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option("--kinds", help=f"Kinds of fault (default {','.join(KINDS)}).", show_default=False),
    ] = None,
    strength: Annotated[
        list[str] | None,
        typer.Option(
            "--strength",
            help="Strengths in standard deviations of a sensor, or added swings for gain (default 1,3,10); other kinds "
            f"have their own units and are set by name: {OWN_UNITS}. May be repeated.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        Literal["random", "grouped"],
        typer.Option(help="What stays together in a split: an episode and its copies, or a whole group."),
    ] = "random",
    preset: Annotated[
        Preset, typer.Option(help="Base settings: the defaults of dfstrans (tuned), or the paper's.")
    ] = "tuned",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Inject known faults into normal episodes, train on them and report how well they are found.

    With --out and without --report, only the file of faulty episodes is written. An episode and its faulty copies form
    a group: train on the file with --split grouped. Episodes labelled anomalous are skipped. The threshold allows 5 %
    false alarms by default.
    """
    from dfstrans.detectors.diagnoser import Diagnoser  # loads torch
    from dfstrans.detectors.workflow import partial_folder
    from dfstrans.lab.compare.runs import command_line, data_name
    from dfstrans.lab.injection.injecting import inject_faults, normal_episodes, save_injected
    from dfstrans.lab.injection.page import verdict, write_injection
    from dfstrans.lab.injection.study import run_study, study_paths, study_settings

    place, report = study_paths(data, out, report)
    training = study_settings(preset, settings)
    seed = Diagnoser.from_settings(**training).seed
    chosen = InjectionSettings.of(kinds, strength or (), **injection, seed=seed)
    warn_of_overlap(split, read)
    normal, said = normal_episodes(load_episodes(data, **read))
    for statement in said:
        remark(statement)
    with progress("injecting faults", round(len(normal) * chosen.share / (1 - chosen.share))) as advance:
        injected = inject_faults(normal, chosen, by_group=split == "grouped", advance=advance)
    for statement in injected.statements:
        remark(statement)
    if not save_injected(injected, place, chosen, keep=resume):
        remark(f"{place} already holds these faults")
    result = {"written": str(place), **injected.summary(chosen)}
    if out is not None:
        remark(f"an episode and its faulty copies form a group: train on {out} with --split grouped")
    if report is None:
        print_result(result if as_json else _as_text(result), as_json)
        return
    earlier = model_written_at(report / "model")
    try:
        study = run_study(
            injected, load_episodes(place), report, chosen, read=read, resume=resume, progress=progress, **training
        )
    except KeyboardInterrupt:
        partial = partial_folder(report / "model")
        kept = f"the finished epochs are kept in {partial}" if partial.is_dir() else f"the model is in {report}/model"
        remark(f"dfstrans: interrupted; {kept}; resume with --resume")
        raise typer.Exit(INTERRUPTED) from None
    if earlier is not None and model_written_at(report / "model") != earlier:
        remark(f"the earlier study in {report} was replaced")
    named = {"kinds": kinds, "strength": strength, "split": split, "preset": preset}
    given = {name: value for name, value in named.items() if value is not None}
    options = {**read, **given, **injection, **command_options(settings)}
    content = {
        "recordings": data_name(data),
        "command": command_line("dfstrans", "inject", data_name(data), "--report", "STUDY", options=options),
        **result,
        "model": str(report / "model"),
        **study.to_dict(),
        "verdict": verdict(study),
    }
    written = write_injection(report, study, content)
    for statement in study.statements[len(injected.statements) :]:  # skips those of the injection
        remark(statement)
    warn_of_guessing(study.chance_check)
    if as_json:
        print_json({**content, "report": str(written)})
        return
    print_study(study)
    print_result({"written": result["written"], "report": written}, as_json=False)


def _as_text(result: dict[str, Any]) -> dict[str, Any]:
    """Format the result as text, one line per kind."""
    kinds: dict[str, list[str]] = {}
    for condition in result["injected_conditions"]:
        kinds.setdefault(condition["kind"], []).append(f"{condition['episodes']} at {condition['strength']:g}")
    lines = {f"  {kind:<14}": f"{', '.join(found)} ({KINDS[kind].unit})" for kind, found in kinds.items()}
    return {**{name: value for name, value in result.items() if name != "injected_conditions"}, **lines}


def print_study(study: StudyResult) -> None:
    """Print one row per kind and strength, with chance in brackets."""
    from dfstrans.lab.injection.page import COLUMNS, result_rows, verdict  # loads plotly

    print_columns(COLUMNS, result_rows(study), words=("fault", "strength"))
    for sentence in verdict(study):
        print(sentence)
    print(f"threshold {study.threshold:.4g}: {study.threshold_note}")
    print("sensor, AC@3, moment: share of detected faults whose diagnosis ranks them first; chance in brackets")
    print(
        f"false alarms per 100 normal episodes: {study.false_alarms_per_100_normal:.1f} "
        f"({study.normal_tested} tested); trained on {study.training_episodes} episodes, "
        f"{study.training_injected} with a fault"
    )
