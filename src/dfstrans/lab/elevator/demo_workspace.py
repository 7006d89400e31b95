"""A workspace of the service with simulated elevators: a model, journeys that it scored, and the cases they opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sqlalchemy import select

from dfstrans.data.readers import load_episodes
from dfstrans.detectors.diagnoser import Diagnoser
from dfstrans.detectors.workflow import train_model
from dfstrans.lab.elevator.journey_file import simulate_to_file
from dfstrans.lab.elevator.settings import SimulationSettings
from dfstrans.lab.elevator.simulation import Fleet
from dfstrans.progress import Progress, no_progress
from dfstrans.service.database import ModelVersion, Recording
from dfstrans.service.scoring import Arrival, Scoring, Upload
from dfstrans.service.versions import active_version, promote, register
from dfstrans.service.workspace import Workspace

JOURNEYS: dict[str, Any] = {"normal": 200, "faulty": 70, "sampling_rate": 40, "n_timepoints": 800}
SETTINGS: dict[str, Any] = {"members": "trees", "segment_length": 50}
SENT_EVERY = 4  # of the journeys that the model did not learn from, one in so many is sent, and all those with a fault
AUTHOR = "demo"


def fill_workspace(
    workspace: Workspace,
    *,
    seed: int = 0,
    remark: Callable[[str], None] = print,
    progress: Progress = no_progress,
    journeys: dict[str, Any] = JOURNEYS,
    settings: dict[str, Any] = SETTINGS,
) -> int:
    """Fill a workspace without recordings; return how many were added. One elevator is unknown to the model."""
    with workspace.reading() as session:
        if session.scalars(select(Recording.id).limit(1)).first() is not None:
            return 0
    fleet = Fleet(SimulationSettings(**journeys, seed=seed))
    remark(f"simulating {fleet.settings.n_journeys} elevator journeys, {fleet.settings.faulty} with a fault")
    with workspace.temporary_folder() as folder:
        with progress("simulating", fleet.settings.n_journeys) as advance:
            simulate_to_file(folder / "journeys.h5", fleet, jobs=2, overwrite=True, advance=advance)
        everything = load_episodes(folder / "journeys.h5").load()
        unseen = everything.require_groups() == max(fleet.groups)
        remark(f"training a detector on {int((~unseen).sum())} of them; the others are of an elevator that is kept out")
        detector = train_model(Diagnoser.from_settings(seed=seed, **settings), everything[~unseen], folder / "model")
        version = register(workspace, folder / "model", "registered", AUTHOR)
    with workspace.writing() as session:
        if active_version(session) is None:
            promote(session, session.get_one(ModelVersion, version), AUTHOR)
    learned = {name for part in ("train", "validation") for name in detector.parts_[part]}
    new = np.flatnonzero(unseen | ~np.isin(everything.ids, list(learned)))
    faulty = everything.require_labels()[new] == 1
    sent = everything[new[faulty | (np.arange(len(new)) % SENT_EVERY == 0)]]
    sent = replace(sent, labels=None, faults=None, truth=None)
    remark(f"scoring {len(sent)} journeys that it did not learn from")
    scoring = Scoring(workspace)
    scoring.start()
    try:
        parts = [sent[[row]] for row in range(len(sent))]
        arrivals = [Arrival(str(one.require_groups()[0]), workspace.keep(one), one) for one in parts]
        scoring.submit(Upload(arrivals, AUTHOR, with_labels=False)).result()
    finally:
        scoring.stop()
    return len(sent)
