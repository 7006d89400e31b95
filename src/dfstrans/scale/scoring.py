"""The pure function of scoring: a file of recordings in, a table of results out, on any machine."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa

from dfstrans.data.episodes import Episodes
from dfstrans.data.inputs import match_sensors, require_interval, without_values
from dfstrans.data.readers.opening import ReadOptions
from dfstrans.data.scaling import SensorScaler
from dfstrans.deploy.runtime import OnnxDetector
from dfstrans.detectors.recipe import Recipe, load_with_recipe, without_unreadable_labels
from dfstrans.errors import DfstransError, option_name
from dfstrans.scale.sources import Source, local_copy, require_scorable_options

Engine = Literal["torch", "onnx"]
Row = dict[str, Any]
Look = Callable[[Episodes], None]
AT_ONCE = 128  # recordings
_MESSAGES, _RANGE = b"messages", b"range"  # keys of notes, warnings and `InRange` in the metadata of a table
_MOMENTS = pa.list_(pa.struct({"start": pa.float64(), "end": pa.float64(), "sensors": pa.list_(pa.string())}))
SCHEMA = pa.schema(
    {
        "machine": pa.string(),  # null if unknown
        "date": pa.string(),  # of the first point, as the clock of the recording showed it; null if unknown
        "episode_id": pa.string(),
        "file": pa.string(),
        "probability": pa.float64(),
        "threshold": pa.float64(),
        "anomalous": pa.int8(),
        "model": pa.string(),  # checksum of the saved model
        "reason": pa.string(),  # why the file or the recording was rejected; null if it was scored
        "top_sensors": pa.list_(pa.string()),
        "moments": _MOMENTS,  # in the time unit of the diagnosis
        "trust": pa.string(),
        "diagnosis": pa.string(),  # JSON
    }
)
DIAGNOSED = ("top_sensors", "moments", "trust", "diagnosis")


class _Loaded(NamedTuple):
    """A detector, and what recordings have to be like."""

    detector: Any
    sensors: tuple[str, ...]
    interval: float | None
    time_unit: str
    reading: Recipe


class InRange(NamedTuple):
    """How many points were scored, and how many values of each sensor are outside the range of training."""

    points: int = 0
    outside: tuple[int, ...] = ()  # empty: none

    def __add__(self, other: Any) -> InRange:
        """Return the sums."""
        return InRange(
            self.points + other.points,
            tuple(a + b for a, b in zip_longest(self.outside, other.outside, fillvalue=0)),
        )


@dataclass(frozen=True)
class Scorer:
    """A saved model and all options that determine its results; can be sent to other processes and machines.

    Called with the address of a file (or a `Source`), it returns a table with the columns of `SCHEMA`: one row for each
    recording, or one with the reason if the file cannot be read. With `diagnose`, anomalous recordings are diagnosed.
    """

    files: dict[str, bytes] = field(repr=False)  # of a saved model, or one exported file
    version: str
    engine: Engine = "torch"
    read: Recipe = field(default_factory=dict)
    machine: str | None = None
    diagnose: bool = False

    @classmethod
    def load(
        cls,
        model: str | Path,
        engine: Engine | None = None,
        *,
        read: Mapping[str, Any] | None = None,
        machine: str | None = None,
        diagnose: bool = False,
    ) -> Self:
        """Read a saved model, or a file that `dfstrans export` wrote; `read` overrides the model's reading options."""
        place, options = Path(model), ReadOptions(**dict(read or {}))
        require_scorable_options(options)
        engine = engine or ("onnx" if place.suffix.lower() == ".onnx" else "torch")
        if diagnose and engine == "onnx":
            raise DfstransError(
                f"expected {option_name('engine', 'torch')} with {option_name('diagnose', True)}, got onnx, which only "
                "predicts; drop one of them"
            )
        files, version = _content(place, engine, diagnose=diagnose)
        self = cls(files, version, engine, options.model_dump(mode="json", exclude_unset=True), machine, diagnose)
        require_scorable_options(self.options)
        return self

    def run(self) -> dict[str, Any]:
        """Return what two runs must share so that their results belong together, as plain values."""
        from dfstrans import __version__

        known = {name: getattr(self, name) for name in ("engine", "read", "machine", "diagnose")}
        return {"model": self.version, **known, "dfstrans": __version__}

    def __call__(self, source: Source | str) -> pa.Table:
        """Score the recordings of a file; never raises an error because of its content."""
        source = Source.of(source) if isinstance(source, str) else source
        total = InRange()

        def count(batch: Episodes) -> None:
            nonlocal total
            outside = self.detector.count_out_of_range(batch).tolist()
            total += InRange(int(batch.lengths.sum()), tuple(outside))

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with self.opened(source) as episodes:
                    rows = list(self.scored(episodes, count))
            except Exception as error:
                rows = [{"reason": reason(error)}]
        messages = list(dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning)))
        known = {_MESSAGES: json.dumps(messages), _RANGE: json.dumps(total)}
        return self.table(source, rows).replace_schema_metadata(known)

    def table(self, source: Source, rows: Sequence[dict[str, Any]]) -> pa.Table:
        """Return a table with these rows about the recordings of a source."""
        constant = {"file": source.address, "model": self.version}
        return pa.Table.from_pylist([row | constant for row in rows], schema=SCHEMA)

    @staticmethod
    def messages(table: pa.Table) -> list[str]:
        """Return the notes and warnings that came with a table."""
        return list(json.loads((table.schema.metadata or {}).get(_MESSAGES, b"[]")))

    @staticmethod
    def in_range(table: pa.Table) -> InRange:
        """Return how many of the values behind a table are outside the range of training."""
        points, outside = json.loads((table.schema.metadata or {}).get(_RANGE, b"[0, []]"))
        return InRange(points, tuple(outside))

    @property
    def scaler(self) -> SensorScaler:
        """The sensors and their ranges in training."""
        scaler: SensorScaler = self.detector.record.scaler if self.engine == "onnx" else self.detector.scaler_
        return scaler

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that have a baseline in the model."""
        return tuple(
            self.detector.record.machines if self.engine == "onnx" else getattr(self.detector, "machines_", ())
        )

    @property
    def detector(self) -> Any:
        """The detector, an `EpisodeClassifier` or an `OnnxDetector`."""
        return self._loaded().detector

    @property
    def options(self) -> ReadOptions:
        """How recordings are read: as those of training, unless said otherwise."""
        return ReadOptions(**{**self._loaded().reading, **self.read})

    # ---- the model --------------------------------------------------------------------------------------------------

    def _loaded(self) -> _Loaded:
        """Return the detector, loaded once in each process."""
        key = (self.version, self.engine)
        with _LOADING:
            if key not in _IN_THIS_PROCESS:
                _IN_THIS_PROCESS.clear()
                _IN_THIS_PROCESS[key] = _load(self.files, self.engine)
            return _IN_THIS_PROCESS[key]

    # ---- recordings -------------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self, source: Source) -> Iterator[Episodes]:
        """Read the recordings of a file; those that are stored are read on demand."""
        with local_copy(source, self.options) as place:
            yield self._read(place)

    def scored(self, episodes: Episodes, look: Look | None = None) -> Iterator[Row]:
        """Yield a row for each recording, in order; `look` is called with those that were scored, a few at a time."""
        detector, sensors, *_ = self._loaded()
        for batch in (episodes[first : first + AT_ONCE] for first in range(0, len(episodes), AT_ONCE)):
            silent = without_values(batch, sensors)
            heard = batch[np.setdiff1d(np.arange(len(batch)), [*silent])] if silent else batch
            found = iter(self._score(detector, heard, look))
            for row in range(len(batch)):
                yield self._describe(batch, row) | ({"reason": silent[row]} if row in silent else next(found))

    def _read(self, place: Path) -> Episodes:
        """Read recordings like those of training, and reject others."""
        known = self._loaded()
        episodes = without_unreadable_labels(
            lambda **read: load_with_recipe(known.reading, place, read, need_labels=False),
            known.reading,
            self.read,
            lambda text: warnings.warn(text, stacklevel=2),
        )
        match_sensors(episodes, known.sensors)
        require_interval(episodes, known.interval, known.time_unit)
        if self.machine is not None:
            episodes = replace(episodes, groups=np.full(len(episodes), self.machine))
        return episodes

    @staticmethod
    def _describe(episodes: Episodes, row: int) -> Row:
        """Return what is known of a recording without a score."""
        start = None if episodes.starts is None else episodes.starts[row]
        return {
            "episode_id": str(episodes.ids[row]),
            "machine": None if episodes.groups is None else str(episodes.groups[row]) or None,
            "date": None if start is None or np.isnat(start) else str(start.astype("datetime64[D]")),
        }

    def _score(self, detector: Any, episodes: Episodes, look: Look | None) -> list[Row]:
        """Score some recordings at once, or, if one of them is refused, each half of them."""
        if not len(episodes):
            return []
        try:
            episodes = detector.check_input(episodes)
            probabilities = detector.predict_proba(episodes)[:, 1]
            if look is not None:
                look(episodes)
            thresholds = detector.thresholds(episodes)
            anomalous = probabilities >= thresholds
            diagnoses = iter(
                detector.diagnose(episodes[np.flatnonzero(anomalous)], trust=True) if self.diagnose else ()
            )
            return [
                {
                    "probability": float(probabilities[row]),
                    "threshold": float(thresholds[row]),
                    "anomalous": int(anomalous[row]),
                    **(_diagnosed(next(diagnoses)) if self.diagnose and anomalous[row] else {}),
                }
                for row in range(len(episodes))
            ]
        except DfstransError as error:
            if len(episodes) == 1:
                return [{"reason": str(error)}]
        half = len(episodes) // 2
        return [*self._score(detector, episodes[:half], look), *self._score(detector, episodes[half:], look)]


def reason(error: Exception) -> str:
    """Return why a file cannot be read; readers raise errors of many libraries on damaged files."""
    return str(error) if isinstance(error, DfstransError) else f"{type(error).__name__}: {error}"


_LOADING = threading.Lock()
_IN_THIS_PROCESS: dict[tuple[str, str], _Loaded] = {}


def _diagnosed(diagnosis: Any) -> dict[str, Any]:
    return {
        "top_sensors": [one.sensor for one in diagnosis.top_sensors()],
        "moments": [{"start": one.start, "end": one.end, "sensors": one.sensors} for one in diagnosis.top_segments()],
        "trust": None if diagnosis.trust is None else diagnosis.trust.support,
        "diagnosis": json.dumps(diagnosis.to_dict(), allow_nan=False),
    }


def _content(model: Path, engine: Engine, *, diagnose: bool) -> tuple[dict[str, bytes], str]:
    """Return the files of a model that this engine needs, and the model's checksum."""
    if model.suffix.lower() == ".onnx" and model.is_file():
        if engine == "torch":
            raise DfstransError(f"expected a saved model for torch, got the exported file {model}; give its folder")
        content = model.read_bytes()
        return {"model.onnx": content}, hashlib.sha256(content).hexdigest()[:16]
    from dfstrans.detectors.saved_model import read_whole_record  # loads torch
    from dfstrans.settings import DFSTRANS

    record = read_whole_record(model)
    if diagnose and record.estimator != DFSTRANS:
        raise DfstransError(
            f"expected a model of the kind {DFSTRANS!r} for diagnoses, got {record.estimator!r}, which detects "
            f"anomalous episodes but cannot explain them; score without {option_name('diagnose')}"
        )
    if engine == "torch":
        return {one.name: one.read_bytes() for one in model.iterdir() if one.is_file()}, record.own_checksum[:16]
    from dfstrans.deploy.onnx_export import export_onnx

    with tempfile.TemporaryDirectory() as folder:
        copy, exported = Path(folder) / "model", Path(folder) / "model.onnx"
        shutil.copytree(model, copy)  # the export is recorded in the model, which stays as it is
        export_onnx(copy, exported)
        return {exported.name: exported.read_bytes()}, record.own_checksum[:16]


def _load(files: Mapping[str, bytes], engine: Engine) -> _Loaded:
    if engine == "onnx":
        exported = OnnxDetector.from_bytes(next(iter(files.values())), threads=1)
        record = exported.record
        return _Loaded(exported, record.sensors, record.interval, record.time_unit, record.reading)
    from dfstrans.detectors.registry import load_detector

    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        detector = load_detector(folder).predict_in("32")
    data = detector.data_
    return _Loaded(detector, detector.sensors_, data.interval, data.time_unit, detector.reading_)
