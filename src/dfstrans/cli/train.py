"""`dfstrans train`: from labelled recordings to a saved model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dfstrans.cli.machines import FalseAlarmRule
from dfstrans.cli.options import Data, reading, setting_options, warn_of_guessing
from dfstrans.cli.output import (
    INTERRUPTED,
    AsJson,
    print_json,
    print_metrics,
    remark,
    warn_of_overlap,
)
from dfstrans.data.readers import load_episodes
from dfstrans.data.splits import MIN_PER_CLASS
from dfstrans.detectors.registry import detector_kind, detector_names
from dfstrans.errors import DfstransError
from dfstrans.settings import DFSTRANS, Members, Preset

if TYPE_CHECKING:  # a wrong option is reported before torch loads
    from dfstrans.detectors.base import EpisodeClassifier
    from dfstrans.detectors.network import NetworkClassifier

app = typer.Typer(add_completion=False)
EPOCHS_TO_TRY = 20  # lower bound of the suggestion; also the lowest default


@app.command(epilog="Example: dfstrans train recordings.csv --out model --segment-length 50 --set mixup=0")
@reading
@setting_options()
def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the model to.", show_default=False)],
    read: dict[str, Any],
    settings: dict[str, Any],
    split: Annotated[
        Literal["random", "grouped"], typer.Option(help="How to split 70/15/15; grouped keeps each group in one part.")
    ] = "random",
    preset: Annotated[
        Preset,
        typer.Option(help="Base settings: the defaults of dfstrans (tuned), or the paper's network and training."),
    ] = "tuned",
    members: Annotated[
        Members | None,
        typer.Option(
            help="Members that decide: network and trees (committee), or one of them. Trees train in seconds. Default: "
            "the committee, but the network alone with --preset paper.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", help=f"Kind of detector: {', '.join(detector_names())}. Only {DFSTRANS} can diagnose."),
    ] = DFSTRANS,
    false_alarms: FalseAlarmRule = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="Training processes on each computer.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Computers to train on; run the command on each.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Train a detector on 70 % of the episodes, calibrate it on 15 %, test it on the other 15 %, and save it."""
    kind = detector_kind(model)
    from dfstrans.detectors.network import NetworkClassifier  # torch loads after the name of the detector is checked
    from dfstrans.detectors.workflow import partial_folder, train_model
    from dfstrans.training import processes
    from dfstrans.training.false_alarms import FalseAlarms

    if preset != "tuned":  # an option overrides --set
        settings = {**settings, "preset": preset}
    if members is not None:
        settings = {**settings, "members": members}
    rule = None if false_alarms is None else FalseAlarms.parse(false_alarms)
    if rule is not None and "threshold_rule" in settings:
        raise DfstransError("expected one rule for the threshold, got --false-alarms and --threshold-rule; drop one")
    detector = kind.from_settings(**settings)  # refuses wrong settings before the recordings are read
    if devices * nodes > 1 and not processes.is_part():
        raise typer.Exit(processes.launch(devices, nodes, [sys.executable, "-m", "dfstrans", *sys.argv[1:]]))
    with processes.first_reports():
        episodes = load_episodes(data, **read)
    remark(repr(episodes))
    if rule is not None:
        limit = {"threshold_rule": "false-alarm-rate", "threshold_value": rule.share(episodes)}
        detector = kind.from_settings(**settings, **limit)
    earlier = model_written_at(out)
    warn_of_overlap(split, read)
    try:
        with processes.first_reports():
            detector = train_model(detector, episodes, out, split=split, read=read, resume=resume, progress=True)
    except KeyboardInterrupt:
        trees = f"the trees alone are a finished model in {out}; " if model_written_at(out) != earlier else ""
        kept = f"the finished epochs are kept in {partial_folder(out)}"
        remark(f"dfstrans: interrupted; {trees}{kept}; continue with --resume")
        raise typer.Exit(INTERRUPTED) from None
    if processes.rank():  # the first process prints
        return
    if earlier is not None and model_written_at(out) != earlier:
        remark(f"the earlier model in {out} was replaced")
    committee = getattr(detector, "committee_", None)
    network = detector if isinstance(detector, NetworkClassifier) else None
    result = {
        "model": str(out),
        "parameters": detector.n_parameters_,
        "best_epoch": detector.best_epoch_,
        "epochs": len(detector.log_),
        "threshold": detector.threshold_.model_dump(),
        "calibration": detector.calibration_.model_dump(),
        "metrics": detector.metrics_,
        "committee": None if committee is None else committee.summary(),
        "chance_check": detector.chance_check._asdict(),
        "loss_beside_guessing": None if network is None else network.loss_beside_guessing,
    }
    warn_of_guessing(detector.chance_check)
    _warn_without_threshold(detector)
    if network is not None and network.learned_little:
        _warn_of_little_learning(network)
    if as_json:
        print_json(result)
        return
    print_metrics(detector.metrics_)
    if committee is not None:
        print(f"committee {committee.note}")
        for part, alone in committee.pr_auc.items():
            found = ", ".join(f"{name} {value:.4g}" for name, value in alone.items() if value is not None)
            print(f"          PR-AUC alone, {part} part: {found or '–'}")
    print(f"threshold {detector.threshold_.value:.4g} ({detector.threshold_.rule}: {detector.threshold_.note})")
    print(f"model     {out}")


def _warn_without_threshold(detector: EpisodeClassifier) -> None:
    """Warn that the validation part was too small to choose a threshold, with remedies."""
    from dfstrans.training.calibration import too_few

    rule, anomalous = detector.threshold_.rule, detector.data_.validation_anomalous
    short_of = too_few(rule, anomalous, detector.data_.validation_episodes - anomalous)
    if not short_of:
        return
    remedies = [f"label more {' and '.join(short_of)} episodes"]
    if (detector.data_.split or {}).get("kind") == "grouped":
        remedies.append("try another --seed")  # a random split has the same class counts with any seed
    if rule == "f1" and short_of == ["anomalous"]:
        remedies.append(
            "choose it from the normal ones alone (--threshold-rule false-alarm-rate --threshold-value 0.05)"
        )
    remedies.append("set one (--threshold-rule fixed --threshold-value …)")
    remark(
        f"warning: no threshold was chosen: the validation part holds fewer than {MIN_PER_CLASS} "
        f"{' and '.join(short_of)} episodes, so it stays at 0.5, and precision, recall and F1 mean little; "
        f"{', or '.join(remedies)}"
    )


def _warn_of_little_learning(network: NetworkClassifier) -> None:
    """Warn that a network needs more epochs, since its training loss is still close to that of guessing."""
    remark(
        "warning: the network has learned little: the training loss ended at "
        f"{100 * (network.loss_beside_guessing or 0):.0f} % of the loss of guessing; more epochs may help "
        f"(--epochs {max(2 * len(network.log_), EPOCHS_TO_TRY)}), or trees (--members trees)"
    )


def model_written_at(out: Path) -> int | None:
    """Return when the model in a folder was written, or None if there is no model."""
    from dfstrans.detectors.saved_model import RECORD, holds_model

    return (out / RECORD).stat().st_mtime_ns if holds_model(out) else None
