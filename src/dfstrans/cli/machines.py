"""Options of commands that compare recordings with the baseline of their machine."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Annotated, Generic, NamedTuple, TypeVar

import numpy as np
import typer

from dfstrans.cli.output import remark
from dfstrans.data.baselines import MIN_RECORDINGS
from dfstrans.data.episodes import Episodes
from dfstrans.errors import DfstransError, Note, did_you_mean, list_few

if TYPE_CHECKING:  # a wrong option is reported before torch loads
    from dfstrans.detectors.base import EpisodeClassifier

Detector = TypeVar("Detector", bound="EpisodeClassifier")

Machine = Annotated[
    str | None,
    typer.Option("--machine", help="Machine that all these recordings come from. Default: the group of each."),
]
FalseAlarmRule = Annotated[
    str | None,
    typer.Option(
        "--false-alarms",
        help="Limit on the false alarms of each machine, such as 1/week; it determines the threshold.",
        metavar="N/PERIOD",
    ),
]
OwnBaseline = Annotated[
    bool,
    typer.Option(
        "--own-baseline", help="Use these recordings, without labels, as the baseline of machines that have none."
    ),
]


def of_machine(episodes: Episodes, machine: str | None) -> Episodes:
    """Return the recordings as those of one machine; unchanged if it is not named."""
    if machine is None:
        return episodes
    groups = [] if episodes.groups is None else np.unique(episodes.groups).tolist()
    if len(groups) > 1:
        warnings.warn(
            f"the recordings name {len(groups)} groups ({list_few(groups)}); all of them are taken as the machine "
            f"{machine}",
            Note,
            stacklevel=3,
        )
    return dataclasses.replace(episodes, groups=np.full(len(episodes), machine))


class Compared(NamedTuple, Generic[Detector]):
    """A detector, the recordings, and the machines among them that have no baseline; None if there are no machines."""

    detector: Detector
    episodes: Episodes
    without_baseline: list[str] | None


def compared_with_machines(
    detector: Detector,
    episodes: Episodes,
    machine: str | None,
    own_baseline: bool,
    beside: Episodes | None = None,
) -> Compared[Detector]:
    """Return what to predict with if recordings are compared with their machine; a remark lists unknown machines.

    All recordings are of `machine`, or of the machines that their groups name. With `own_baseline`, machines without a
    baseline are compared with these recordings of theirs, and with those `beside` them.
    """
    from dfstrans.detectors.trees import KnowsMachines  # loads torch
    from dfstrans.detectors.workflow import scorable

    episodes = of_machine(episodes, machine)
    if not isinstance(detector, KnowsMachines) or not detector.machines_:
        if own_baseline:
            raise DfstransError(
                "expected a model that compares each machine with itself for --own-baseline, got one that does not; "
                "train one on recordings that name their machine (--group-column …)"
            )
        if machine is not None:
            remark(
                f"the decision does not depend on the machine {machine}, because the model compares no machine with "
                "itself; train one that does on recordings that name their machine (--group-column …)"
            )
        return Compared(detector, episodes, None)
    if episodes.groups is None:
        if own_baseline:
            raise DfstransError(
                "expected the machine of the recordings for --own-baseline, got neither a name nor groups; "
                "name it (--machine …), or the column that does (--group-column …)"
            )
        remark(
            "the recordings name no machine, so they are compared with the fleet; name it (--machine …), or the "
            "column that does (--group-column …)"
        )
        return Compared(detector, episodes, None)
    if own_baseline:
        usable = episodes if beside is None else scorable(detector, beside, lambda _: None).episodes
        detector = detector.with_own_baselines(of_machine(usable, machine))
    thresholds = dict(zip(episodes.groups.tolist(), detector.thresholds(episodes), strict=True))
    own = [f"{name} {value:.4g}" for name, value in thresholds.items() if value != detector.threshold_.value]
    if own:
        remark(f"machines with their own threshold: {list_few(own)}")
    unknown = detector.machines_without_baseline(episodes)
    if unknown:
        remedy = (
            f"they have fewer than {MIN_RECORDINGS} recordings here"
            if own_baseline
            else "commission them (`dfstrans commission`), or use --own-baseline"
        )
        meant = "" if machine is None else did_you_mean(machine, detector.machines_, "")
        shown = f"{machine} ({meant})" if meant else list_few(unknown)
        remark(f"machines without a baseline are compared with the fleet: {shown}; {remedy}")
    return Compared(detector, episodes, unknown)
