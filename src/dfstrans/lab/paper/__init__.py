"""The paper's tables and figures, each by its label, and an ablation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dfstrans.errors import DfstransError, option_name
from dfstrans.lab.elevator.settings import Preset
from dfstrans.lab.paper.ablation import ABLATION
from dfstrans.lab.paper.printed import DETECTION, DIAGNOSES, PARAMETERS, figure_or_table
from dfstrans.lab.paper.request import QUICK, Compute, Outcome, Request, Simulate, with_record

__all__ = ["Outcome", "Request", "reproduce"]


def simulate_silently(path: Path, preset: Preset) -> None:
    """Simulate the journeys of a preset, unless they are there."""
    from dfstrans.lab.paper.datasets import simulate_elevator

    simulate_elevator(path, preset, lambda _: None)


def reproduce(request: Request, compute: Compute, simulate: Simulate = simulate_silently) -> Outcome:
    """Make a table or a figure of the paper.

    `compute` is given the comparisons whose cells are needed, `simulate` the place and preset of journeys.
    """
    request = replace(request, target=figure_or_table(request.target))
    _check(request)
    if request.quick:
        request = replace(request, out=request.out / "quick", folds=QUICK["folds"], seeds=1)
    return with_record(request, _made(request, compute, simulate))


def _made(request: Request, compute: Compute, simulate: Simulate) -> Outcome:
    if request.target in DETECTION:
        from dfstrans.lab.paper.detection import detection

        return detection(request, compute)
    if request.target == ABLATION:
        from dfstrans.lab.paper.ablation import ablation

        return ablation(request, compute)
    if request.target in PARAMETERS:
        from dfstrans.lab.paper.parameters import parameters_by_sensors, time_and_parameters

        return (
            time_and_parameters(request, compute)
            if request.target == "tab:timeparams"
            else parameters_by_sensors(request)
        )
    if request.target in DIAGNOSES:
        from dfstrans.lab.paper.diagnoses import diagnoses

        return diagnoses(request, simulate)
    from dfstrans.lab.paper.encodings import encodings

    return encodings(request)


def _check(request: Request) -> None:
    """Refuse what the target does not have."""
    target = request.target
    if request.counts_only and target not in ("tab:timeparams", "tab:n_params_s"):
        raise DfstransError(
            f"expected a table of parameters for {option_name('counts_only', True)}, got {target}; leave it out"
        )
    if request.seeds != 1 and target != ABLATION:
        raise DfstransError(f"expected {option_name('seeds')} with {ABLATION} only, got it with {target}; leave it out")
    if request.model is not None and target not in DIAGNOSES:
        raise DfstransError(
            f"expected {option_name('model')} with figures of diagnoses ({', '.join(DIAGNOSES)}), got it with "
            f"{target}; leave it out"
        )
    for setting in [*request.part, *(["threads"] if request.threads is not None else [])]:
        if setting not in _options(request):
            raise DfstransError(
                f"expected {option_name(setting)} with tables of detection only, got it with {target}, which has no "
                "use for it; leave it out"
            )


def _options(request: Request) -> tuple[str, ...]:
    """Which of the options of tables the target has."""
    if request.target in DETECTION or request.target == ABLATION:
        return "data_sets", "protocol", "models", "folds", "threads"
    if request.target == "tab:timeparams" and not request.counts_only:
        return "data_sets", "models", "threads"  # one split, cut as in the paper
    return ()
