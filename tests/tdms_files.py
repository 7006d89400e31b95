"""Write TDMS files as LabVIEW does; needs the extra tdms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

START = np.datetime64("2024-05-31T12:00:00")
WAVE = {"wf_increment": 0.01, "wf_start_time": START, "wf_start_offset": 0.0, "unit_string": "g"}


def write_tdms(
    path: Path,
    groups: Mapping[str, Mapping[str, Any]],
    wave: Mapping[str, Any] = WAVE,
    about: Mapping[str, Mapping[str, Any]] = {},
) -> Path:
    """Write a file with the channels of each group; `about` holds the properties of groups, and of the file as ''."""
    import nptdms

    objects = [nptdms.RootObject(about.get("", {}))]
    for name, channels in groups.items():
        objects.append(nptdms.GroupObject(name, about.get(name, {})))
        objects += [
            nptdms.ChannelObject(name, channel, np.asarray(data), dict(wave)) for channel, data in channels.items()
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    with nptdms.TdmsWriter(path) as writer:
        writer.write_segment(objects)
    return path
