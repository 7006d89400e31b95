"""Prepare whole recordings according to the read options, before they are cut."""

from __future__ import annotations

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.columns import handle_infinite
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.resampling import clip_beyond, fill_forward, resample


def prepare(recordings: Episodes, options: ReadOptions) -> Episodes:
    """Clip, reject or remove infinite values, fill and resample, in this order."""
    if options.clip_beyond is not None:
        recordings = clip_beyond(recordings, options.clip_beyond)
    recordings = handle_infinite(recordings, options)
    if options.fill == "forward":
        recordings = fill_forward(recordings)
    return recordings if options.resample is None else resample(recordings, options.resample, options.resample_by)
