"""Watch a folder: score recordings as they arrive, each exactly once, whatever is killed."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dfstrans.data.episodes import Episodes
from dfstrans.detectors.early import EarlyWarning, prefix_probabilities, prefixes
from dfstrans.errors import counted
from dfstrans.files import explain_disk_errors
from dfstrans.scale.arrivals import UNFINISHED, Arrival, Arrivals, copy_whole_lines
from dfstrans.scale.journal import Journal, JournalError
from dfstrans.scale.scoring import AT_ONCE, Row, Scorer, reason
from dfstrans.scale.webhook import Webhook

RESULTS, REJECTS, EARLY = "results.jsonl", "rejects.jsonl", "early.jsonl"
DELIVERED, FILES, _CURRENT = "_delivered.jsonl", "_files.jsonl", "_current.json"
MOST_DEATHS = 3  # of watchers while they scored the same file
_LONGEST_PAUSE = 1.0  # seconds between looks at the folder
_ENDS = JournalError, BrokenPipeError  # the results cannot be written, or the output is read no more
_LOOKS_AHEAD = ("resample", "clip_beyond", "drop_duplicates")  # options by which later points change earlier values


class Watcher:
    """Scores the recordings of a folder and writes the results into another; only one may do so at a time.

    `on_row` is called with each row that is written, and `counts` counts them: recordings, anomalous and rejected ones,
    and early alarms. Setting `stop` ends the watcher after the present batch.
    """

    def __init__(
        self,
        scorer: Scorer,
        folder: Path,
        out: Path,
        *,
        settle: float,
        early: EarlyWarning | None = None,
        webhook: Webhook | None = None,
        send_all: bool = False,
        on_row: Callable[[Row], None] = lambda _: None,
        remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._scorer, self._early, self._settle, self._current = scorer, early, settle, out / _CURRENT
        self._webhook, self._send_all, self._on_row, self._remark = webhook, send_all, on_row, remark
        self._journals = {name: Journal(out / name) for name in (RESULTS, REJECTS, EARLY, FILES)}
        self._events = {bytes.fromhex(row["event"]) for name in (RESULTS, REJECTS) for row in self._journals[name]}
        self._running: dict[str, tuple[int, bool]] = {}  # points of growing recordings, and whether there was an alarm
        for row in self._journals[EARLY]:
            alarmed = self._running.get(row["recording"], (0, False))[1]
            self._running[row["recording"]] = row["points"], alarmed or bool(row["anomalous"])
        finished = {row["file"]: (row["size"], row["changed"]) for row in self._journals[FILES]}
        self._arrivals = Arrivals(folder, out, settle, finished)
        options = scorer.options
        self._cuts = options.length is not None and not any(getattr(options, name) for name in _LOOKS_AHEAD)
        self._said: set[str] = set()
        self._suspect = _read_suspect(self._current)
        self.counts, self.stop = Counter[str](), threading.Event()

    def run(self, *, once: bool = False) -> None:
        """Watch until `stop` is set or, with `once`, until the files that are there have settled and are scored."""
        if self._webhook is not None:
            for name in (RESULTS, EARLY):
                self._send(self._journals[name])
        busy = time.monotonic()
        try:
            while not self.stop.is_set():
                if self.look():
                    busy = time.monotonic()
                elif once and not self._arrivals.waiting:
                    break
                elif once and time.monotonic() - busy > (UNFINISHED + 1) * self._settle:
                    left = counted(self._arrivals.waiting, "file")
                    self._remark(f"warning: left {left} that are still being written")
                    break
                if self._webhook is not None:
                    self._webhook.check()
                self.stop.wait(min(self._settle / 4, _LONGEST_PAUSE))
        except _ENDS:
            self._current.unlink(missing_ok=True)
            raise
        self._current.unlink(missing_ok=True)

    def look(self) -> int:
        """Score what has arrived; return how many files are finished."""
        finished = 0
        try:
            for arrival in self._arrivals:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    if arrival.growing:
                        self._follow(arrival)
                    else:
                        finished += self._finish(arrival)
                for text in {str(one.message) for one in caught if issubclass(one.category, UserWarning)} - self._said:
                    self._said.add(text)
                    self._remark(f"{arrival.name}: {text}")
                if self.stop.is_set():
                    break
        except BrokenPipeError:
            raise
        except OSError as error:  # a network drive may come back
            if str(error) not in self._said:
                self._said.add(str(error))
                self._remark(f"warning: the folder cannot be read ({error}); it is looked at again")
        return finished

    # ---- a file -----------------------------------------------------------------------------------------------------

    def _finish(self, arrival: Arrival) -> bool:
        """Score the recordings of a settled file that have no row yet; return whether it did not change meanwhile."""
        problem = self._deaths(arrival)
        if problem is None:
            try:
                with self._scorer.opened(arrival.source) as episodes:
                    if not self._score(arrival, episodes):
                        return False
            except _ENDS:
                raise
            except Exception as error:
                problem = reason(error)
        if self.stop.is_set() or not arrival.unchanged:  # what is stopped may fail for that reason
            return False
        if problem is not None:
            self._write(arrival, {_event(arrival.name, *arrival.signature): {"reason": problem}})
        size, changed = arrival.signature
        self._journals[FILES].append([{"file": arrival.name, "size": size, "changed": changed}])
        self._arrivals.finish(arrival)
        return True

    def _follow(self, arrival: Arrival) -> None:
        """Score what is complete of a file that grows; whether something is wrong with it shows when it has settled."""
        if not self._cuts and self._early is None:
            return
        with tempfile.TemporaryDirectory(prefix="dfstrans-", ignore_cleanup_errors=True) as folder:
            copy = arrival.source._replace(address=str(Path(folder) / arrival.name), folder=folder)
            try:
                copy_whole_lines(Path(arrival.source.address), Path(copy.address))
                with self._scorer.opened(copy) as episodes:
                    (self._score if self._cuts else self._warn_early)(arrival, episodes)
            except _ENDS:
                raise
            except Exception:
                return

    def _score(self, arrival: Arrival, episodes: Episodes) -> bool:
        """Score and write the recordings without a row; return False if the file changed, or the watcher is stopped."""
        events = [
            _event(arrival.name, one.group, one.id, str(one.start), one.values.shape[1], values=one.values)
            for one in episodes
        ]
        new = [row for row, event in enumerate(events) if bytes.fromhex(event) not in self._events]
        for first in range(0, len(new), AT_ONCE):
            if self.stop.is_set():
                return False
            part = new[first : first + AT_ONCE]
            found = dict(zip((events[row] for row in part), self._scorer.scored(episodes[part]), strict=True))
            if not (arrival.growing or arrival.unchanged):
                return False
            self._write(
                arrival, {event: row for event, row in found.items() if not (arrival.growing and "reason" in row)}
            )
        return True

    def _write(self, arrival: Arrival, rows: dict[str, Row]) -> None:
        """Append new rows to the results and rejects, and send alarms."""
        for name, rejected in ((RESULTS, False), (REJECTS, True)):
            written = [
                {"event": event, "file": arrival.name, **row, "model": self._scorer.version, "time": _now()}
                for event, row in rows.items()
                if ("reason" in row) == rejected and bytes.fromhex(event) not in self._events
            ]
            self._journals[name].append(written)
            self._events.update(bytes.fromhex(row["event"]) for row in written)
            self._tell(written)

    def _tell(self, rows: list[Row]) -> None:
        """Send, count and show rows that have been written."""
        self._send(rows)
        for row in rows:
            kind = "early" if "recording" in row else "rejected" if "reason" in row else "recordings"
            self.counts[kind] += kind != "early" or row["anomalous"]
            self.counts["anomalous"] += kind == "recordings" and row["anomalous"]
            self._on_row(row)

    def _send(self, rows: Iterable[Row]) -> None:
        if self._webhook is not None:
            for row in rows:
                if row.get("anomalous") or (self._send_all and "recording" not in row):
                    self._webhook.send(row)

    def _deaths(self, arrival: Arrival) -> str | None:
        """Note that this file is being scored; return a problem if several watchers have died of it."""
        present = [arrival.name, *arrival.signature]
        *suspect, deaths = self._suspect
        deaths = deaths + 1 if suspect == present else 0
        with explain_disk_errors(self._current):
            self._current.write_text(json.dumps([*present, deaths]), encoding="utf-8")
        if deaths < MOST_DEATHS:
            return None
        return f"{deaths} watchers died while they scored it, probably for lack of memory; cut the file"

    # ---- recordings that are still running --------------------------------------------------------------------------

    def _warn_early(self, arrival: Arrival, episodes: Episodes) -> None:
        """Write the probability after each completed segment of recordings, and the first alarm of each."""
        detector, early = self._scorer.detector, self._early
        assert early is not None  # checked by `_follow`
        segment = detector.network_settings_.segment_length
        complete = episodes.lengths - (self._scorer.options.resample is not None)  # the last point may change
        for row in np.flatnonzero(complete >= segment).tolist():
            one = detector.check_input(episodes[[row]])
            first = next(iter(prefixes(one, segment)))
            recording = _event(arrival.name, first.group, first.id, str(first.start), values=first.values)
            seen, alarmed = self._running.get(recording, (0, False))
            points = range(seen + segment, int(complete[row]) + 1, segment)
            if not points:
                continue
            written, own = [], float(detector.thresholds(one)[0])
            for n, probability in zip(points, prefix_probabilities(detector, one, points)[0], strict=True):
                threshold = early.threshold(n - segment, n)
                threshold = None if threshold is None else max(threshold, own)
                alarm = threshold is not None and probability >= threshold and not alarmed
                alarmed |= alarm
                written.append(
                    {
                        "event": _event(recording, n),
                        "file": arrival.name,
                        "recording": recording,
                        "episode_id": first.id,
                        "machine": first.group or None,
                        "points": n,
                        "share": min(n / early.typical, 1.0),
                        "probability": float(probability),
                        "threshold": threshold,  # null between the steps for which there is one
                        "anomalous": int(alarm),
                        "model": self._scorer.version,
                        "time": _now(),
                    }
                )
            self._journals[EARLY].append(written)
            self._running[recording] = points[-1], alarmed
            self._tell(written)


def _event(*names: object, values: npt.NDArray[np.float32] | None = None) -> str:
    """Return a digest of plain names and values."""
    digest = blake2b(json.dumps(names).encode(), digest_size=16)
    digest.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _read_suspect(path: Path) -> list[Any]:
    """Return the file during which the previous watcher ended, and how many had died of it before."""
    try:
        return list(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):  # there is none, or it ended while it wrote this
        return [0]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
