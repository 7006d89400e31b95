"""The kinds of detectors by name, each imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dfstrans.config import DFSTRANS
from dfstrans.errors import DfstransError, did_you_mean

if TYPE_CHECKING:
    from dfstrans.estimator import EpisodeClassifier

NEIGHBOURS = "neighbours"  # no detector but a gauge: it looks at no value, so that what it reaches is leak
HOMES = {
    DFSTRANS: ("dfstrans.diagnoser", "Diagnoser"),
    "inceptiontime": ("dfstrans.baselines.inceptiontime", "InceptionTimeClassifier"),
    "tapnet": ("dfstrans.baselines.tapnet", "TapNetClassifier"),
    "mlstm-fcn": ("dfstrans.baselines.mlstm_fcn", "MLSTMFCNClassifier"),
    "mh1dcnn-lstm": ("dfstrans.baselines.mh1dcnn_lstm", "MH1DCNNLSTMClassifier"),
    "minirocket": ("dfstrans.baselines.minirocket", "MiniRocketClassifier"),
    "boosting": ("dfstrans.baselines.boosting", "BoostingClassifier"),
    NEIGHBOURS: ("dfstrans.baselines.neighbours", "NeighbourClassifier"),
}


class Models(Mapping[str, "type[EpisodeClassifier]"]):
    """Name → class of detector, imported on first use."""

    def __getitem__(self, name: str) -> type[EpisodeClassifier]:
        if name not in HOMES:
            raise DfstransError(f"expected one of {', '.join(HOMES)}, got {name!r}; {did_you_mean(name, HOMES)}")
        module, kind = HOMES[name]
        found: type[EpisodeClassifier] = getattr(import_module(module), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


MODELS = Models()
DETECTORS = tuple(name for name in HOMES if name != NEIGHBOURS)  # what can be trained to be used


def detector_kind(name: str) -> type[EpisodeClassifier]:
    """The class of a detector that is to be used on new recordings; the gauge of leak is none."""
    if name not in MODELS:
        raise DfstransError(f"expected one of {', '.join(DETECTORS)}, got {name!r}; {did_you_mean(name, DETECTORS)}")
    if name == NEIGHBOURS:
        raise DfstransError(
            f"expected one of {', '.join(DETECTORS)}, got {name}, which looks at no value and has nothing to say of "
            "new recordings; it tells how much of a comparison is leak: dfstrans compare DATA --models "
            f"{DFSTRANS},{name} --out RESULTS"
        )
    return MODELS[name]


def load_detector(folder: str | Path) -> EpisodeClassifier:
    """Read a saved model of any kind."""
    from dfstrans.artifact import read_record

    return MODELS[read_record(Path(folder)).estimator].load(folder)
