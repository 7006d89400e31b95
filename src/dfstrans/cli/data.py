"""`dfstrans data`: check recordings, and convert them to another format."""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli.options import Data, Model, reading
from dfstrans.cli.output import AsJson, print_json, print_result, progress
from dfstrans.data.check import check_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.data.problems import Problem, Problems
from dfstrans.data.readers import load_episodes, read_episodes
from dfstrans.data.tally import Finding
from dfstrans.data.writers import save_episodes
from dfstrans.errors import Note, list_few

_LEVELS = ("error", "warning", "info")
app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check and convert recordings.")


@app.command("check", epilog="Example: dfstrans data check recordings.csv")
@reading
def check(data: Data, read: dict[str, Any], as_json: AsJson = False) -> None:
    """Report what was read from recordings and what looks suspicious.

    The exit code is 1 if the recordings cannot be used for training. Missing labels alone do not count, since
    unlabelled recordings are fine for prediction.
    """
    episodes, problems, warned = _read_with_warnings(data, read)
    findings = [
        *(_finding(problem) for problem in problems.merged()),
        *(Finding("warning", message) for message in warned),
    ]
    skipped = {str(file): [one.message for one in reasons] for file, reasons in problems.skipped.items()}
    content: dict[str, Any] = {"ok": False}
    lines = []
    if episodes is not None:
        with progress("checking", len(episodes)) as advance:
            found = check_episodes(episodes, advance)
        found = replace(found, findings=(*findings, *found.findings))
        findings, content = list(found.findings), found.to_dict()
        lines = [str(episodes), f"  missing   {100 * found.missing:.2f} % of the values"]
        if found.fault_kinds:
            lines.append("  kinds     " + list_few((f"{kind} {n}" for kind, n in found.fault_kinds.items()), 20))
    if as_json:
        print_json({**content, "findings": [asdict(finding) for finding in findings], "skipped": skipped})
    else:
        lines += [problems.describe_skipped(most=len(skipped))] if skipped else []
        findings.sort(key=lambda finding: _LEVELS.index(finding.level))
        lines += [f"{finding.level}: {finding.message}" for finding in findings] or ["nothing suspicious was found"]
        print("\n".join(lines))
    raise typer.Exit(0 if content["ok"] else 1)


def _finding(problem: Problem) -> Finding:
    file = None if problem.file is None else str(problem.file)
    return Finding(problem.level, str(problem), problem.count, file, problem.line, problem.option or None)


def _read_with_warnings(data: Path, read: dict[str, Any]) -> tuple[Episodes | None, Problems, list[str]]:
    """Read recordings and collect all problems, and the reader's warnings as findings.

    Notes and library warnings are shown as usual.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        episodes, problems = read_episodes(data, **read)
    found = []
    for warning in warned:
        if issubclass(warning.category, UserWarning) and not issubclass(warning.category, Note):
            found.append(str(warning.message))
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return episodes, problems, list(dict.fromkeys(found))


@app.command("convert", epilog="Example: dfstrans data convert recordings.csv recordings.h5")
@reading
def convert(
    data: Data,
    out: Annotated[Path, typer.Argument(help="File to write: .h5, .parquet or .npz.", show_default=False)],
    read: dict[str, Any],
    as_json: AsJson = False,
) -> None:
    """Read recordings in any supported format and write them as HDF5, Parquet or npz."""
    episodes = load_episodes(data, **read)
    save_episodes(episodes, out)
    print_result({"written": str(out), "episodes": len(episodes), "anomalous": episodes.n_anomalous}, as_json)


@app.command("recipe", epilog="Example: dfstrans data recipe model > recipe.toml")
def recipe(model: Model, as_json: AsJson = False) -> None:
    """Print how the training recordings of a model were read, as TOML for the --recipe option of other commands."""
    from dfstrans.detectors.recipe import recipe_as_toml  # other commands need no saved model
    from dfstrans.detectors.saved_model import read_record

    found = read_record(model).reading
    if as_json:
        print_json(found)
    else:
        print(recipe_as_toml(found) or "# no options were set\n", end="")
