"""`dfstrans evaluate`: compare decisions with labels, and diagnoses with known causes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from dfstrans.cli.machines import Machine, OwnBaseline, compared_with_machines
from dfstrans.cli.options import (
    Data,
    Model,
    reading,
    warn_out_of_range,
)
from dfstrans.cli.output import AsJson, print_columns, print_json, print_metrics, progress, remark
from dfstrans.data.episodes import Episodes
from dfstrans.detectors.card import CANNOT_TELL
from dfstrans.detectors.registry import load_detector
from dfstrans.errors import DfstransError, option_name
from dfstrans.model.novelty import NOT_SEEN

if TYPE_CHECKING:
    from dfstrans.detectors.early import EarlyWarning

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans evaluate model recordings.csv --part test")
@reading
def evaluate(
    model: Model,
    data: Data,
    read: dict[str, Any],
    part: Annotated[
        Literal["all", "train", "validation", "test"],
        typer.Option(help="Evaluate all episodes, or one part of the split the model was trained on."),
    ] = "all",
    diagnosis: Annotated[
        bool, typer.Option("--diagnosis", help="Also compare the diagnoses of detected anomalies with known causes.")
    ] = False,
    early: Annotated[
        Path | None,
        typer.Option(
            "--early",
            help="Folder for thresholds of early alarms on recordings that are still running, and their figure.",
        ),
    ] = None,
    machine: Machine = None,
    own_baseline: OwnBaseline = False,
    as_json: AsJson = False,
) -> None:
    """Compare a model's decisions with labels and, on request, its diagnoses with known causes."""
    from dfstrans.detectors.diagnoser import Diagnoser
    from dfstrans.detectors.workflow import PARTS, evaluate_diagnoses, part_of, scorable  # loads torch
    from dfstrans.training.committee import COMMITTEE
    from dfstrans.training.false_alarms import weekly_false_alarms

    detector = load_detector(model)
    episodes = detector.load_episodes(data, **read)
    tested, skipped = scorable(detector, part_of(detector, episodes, part), remark)
    if part == "validation" and isinstance(detector, Diagnoser) and detector.trees_ is not None:
        remark(
            "the trees have learned from the validation part as well, once calibration and threshold were chosen, so "
            "metrics on it are optimistic; use --part test"
        )
    detector, tested, unknown = compared_with_machines(detector, tested, machine, own_baseline)
    members = detector.evaluate_members(tested) if isinstance(detector, Diagnoser) else {}
    metrics = (members.pop(COMMITTEE, None) or detector.evaluate(tested)).to_dict()
    alone = {name: one.to_dict() for name, one in members.items()}
    committee = detector.committee_ if isinstance(detector, Diagnoser) else None
    weighed = None if committee is None else {"network_weight": committee.network_weight, "members": alone}
    novelty = detector.novelty(tested)
    unlike = None if np.isnan(novelty).any() else int((novelty > 1).sum())
    seen = detector.evaluate(tested[novelty <= 1]).to_dict() if unlike and unlike < len(tested) else None
    weekly = weekly_false_alarms(tested, metrics["false_positives"])
    outside = warn_out_of_range(detector, tested)
    found = None
    if diagnosis:
        train = part_of(detector, episodes, "train") if part in PARTS else None
        found = evaluate_diagnoses(detector, tested, train, progress)
    warning = None if early is None else _measure_early(detector, model, tested, early)
    if as_json:
        known = {"part": part, **metrics, "out_of_range": outside, "skipped": skipped}
        beside: dict[str, Any] = {
            "without_baseline": unknown,
            "committee": weighed,
            "diagnosis": found,
            "false_alarms_per_week": weekly,
            "not_seen_before": unlike,
            "seen_before": seen,
            "early": None if warning is None else warning.model_dump(),
        }
        print_json({**known, **{name: value for name, value in beside.items() if value is not None}})
        return
    without = {} if seen is None else {f"{part}, seen before": seen}
    print_metrics({part: metrics, **without, **{f"{name} alone": one for name, one in alone.items()}})
    told = f"cannot tell; {CANNOT_TELL}" if unlike is None else f"{unlike} of {len(tested)}"
    print(f"unlike anything in training ({NOT_SEEN}): {told}")
    if weekly is not None:
        print(f"false alarms per machine and week: {weekly:.3g}")
    if found is not None:
        _print_assessment(found)
    if warning is not None:
        _print_early(warning)


def _measure_early(detector: Any, model: Path, tested: Episodes, folder: Path) -> EarlyWarning:
    """Write the thresholds of early alarms, and their figure if it can be drawn."""
    from dfstrans.detectors.early import EarlyWarning
    from dfstrans.detectors.saved_model import read_whole_record
    from dfstrans.report.print_figures import draw_early, write_figures

    if not hasattr(detector.network_settings_, "segment_length"):
        raise DfstransError(
            f"expected a model that cuts recordings into segments for {option_name('early', ...)}, got one of the kind "
            f"{detector.estimator_name!r} in {model}; train one with --model dfstrans"
        )
    found = EarlyWarning.measure(detector, read_whole_record(model).own_checksum[:16], tested, progress)
    remark(f"thresholds of early alarms: {found.save(folder)}")
    if find_spec("matplotlib") is None:
        remark("without their figure, since matplotlib is not installed (pip install 'dfstrans[paper]')")
    else:
        steps = found.model_dump()["steps"]
        write_figures(folder, {"early": lambda: draw_early({"": steps})}, ("svg",))
    return found


def _print_early(found: EarlyWarning) -> None:
    """Print how good alarms are by the share of a recording that has been seen."""
    titles = ("seen", "points", "threshold", "F1 so far", "recall", "false alarms per 100 normal", "PR-AUC")
    rows = [
        (
            *(f"{100 * one.share:.0f} %", f"{one.points}", f"{one.threshold:.3g}", f"{one.f1:.3f}"),
            *(f"{one.recall:.3f}", f"{one.false_alarms_per_100_normal:.1f}", f"{one.pr_auc:.3f}"),
        )
        for one in found.steps
    ]
    print("\nearly alarms on recordings that are still running (cross-fitted on these recordings)")
    print_columns(titles, rows, words=())
    step = found.enough
    print(
        f"{100 * step.share:.0f} % of a recording is enough for an F1 of {step.f1:.3f}, at least 95 % of the last one"
    )


def _print_assessment(found: dict[str, Any]) -> None:
    """Print how well rankings match known causes, with chance levels, and how much decisions depend on them."""
    from dfstrans.diagnosis.metrics.assessment import headline  # loads scipy.stats

    support = ", ".join(f"{word} in {n}" for word, n in found["support"].items())
    print(
        f"\ndiagnoses of {found['detected']} detected episodes with a known cause; attention: {support or 'not tested'}"
    )
    print_columns(*headline(found), words=("level", "metric", "kind"))
    for name, why in found["missing"].items():
        print(f"without {name}: {why}")
    print()
    curves = found["curves"]
    rows = [
        (name, f"{value:.2f}", f"{curves['random_metrics'][name]:.2f}") for name, value in curves["metrics"].items()
    ]
    question = "does the decision depend on what is shown?"
    print_columns((question, "shown", "random"), rows, words=(question,))
