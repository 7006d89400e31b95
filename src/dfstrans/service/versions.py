"""Model versions: registered, promoted by a person, and rolled back; each step is recorded."""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from dfstrans.errors import DfstransError
from dfstrans.files import atomic_write
from dfstrans.service.database import ModelVersion, Promotion
from dfstrans.service.workspace import Workspace


def register(workspace: Workspace, folder: Path, origin: str, author: str, note: str = "") -> int:
    """Copy a saved model into the workspace, unless it is there; return the number of its version."""
    from dfstrans.detectors.saved_model import OWN_FILES, read_whole_record
    from dfstrans.training.run_folder import TENSORBOARD

    checksum = read_whole_record(folder).own_checksum
    place = workspace.models / checksum
    if not place.exists():
        with atomic_write(place) as temporary:
            temporary.mkdir()
            for name in OWN_FILES - {TENSORBOARD}:
                if (folder / name).is_file():
                    shutil.copyfile(folder / name, temporary / name)
    with workspace.writing() as session:
        found = session.scalars(select(ModelVersion).where(ModelVersion.checksum == checksum)).first()
        if found is None:
            found = ModelVersion(checksum=checksum, origin=origin, author=author, note=note)
            session.add(found)
            session.flush()
        return found.id


def last_promotion(session: Session) -> Promotion | None:
    """Return the promotion that names the active version."""
    return session.scalars(select(Promotion).order_by(Promotion.id.desc()).limit(1)).first()


def active_version(session: Session) -> ModelVersion | None:
    """Return the version that scores; None if there is none."""
    last = last_promotion(session)
    return None if last is None else session.get(ModelVersion, last.version_id)


def promote(session: Session, version: ModelVersion, author: str) -> Promotion:
    """Make a version the active one."""
    return _make_active(session, version.id, "promote", author)


def rollback(session: Session, author: str) -> Promotion:
    """Make the version active again that was so before the last promotion that was not itself taken back."""
    history = session.scalars(select(Promotion).order_by(Promotion.id)).all()
    standing: list[Promotion] = []
    for one in history:
        if one.action == "promote":
            standing.append(one)
        else:
            standing.pop()
    previous = standing[-1].previous_id if standing else None
    if previous is None:
        raise DfstransError("expected an earlier active version to roll back to, got none; promote a version instead")
    return _make_active(session, previous, "rollback", author)


def _make_active(session: Session, version_id: int, action: str, author: str) -> Promotion:
    last = last_promotion(session)
    previous = None if last is None else last.version_id
    if previous == version_id:
        raise DfstransError(f"expected a version that is not active, got {version_id}, which is; choose another one")
    made = Promotion(version_id=version_id, previous_id=previous, action=action, author=author)
    session.add(made)
    session.flush()
    return made


@lru_cache(maxsize=64)
def about_model(folder: Path) -> dict[str, Any]:
    """Return what the record of a saved model says about it; its folder, named by its checksum, never changes."""
    from dfstrans.detectors.saved_model import read_record

    record = read_record(folder)
    return {
        "estimator": record.estimator,
        "members": record.decided_by,
        "trained": record.created,
        "sensors": list(record.sensors),
        "threshold": record.threshold.value,
        "threshold_note": record.threshold.note,
        "calibration": record.calibration.model_dump(mode="json"),
        "metrics": record.metrics,
        "training_recordings": record.data.train_episodes,
        "training_anomalies": record.data.train_anomalous,
        "machines": [name for name, _ in record.machines],
        "known_faults": sorted(set(record.known_cases.values())),
    }
