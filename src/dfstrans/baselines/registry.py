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

HOMES = {
    DFSTRANS: ("dfstrans.diagnoser", "Diagnoser"),
    "inceptiontime": ("dfstrans.baselines.inceptiontime", "InceptionTimeClassifier"),
    "tapnet": ("dfstrans.baselines.tapnet", "TapNetClassifier"),
    "mlstm-fcn": ("dfstrans.baselines.mlstm_fcn", "MLSTMFCNClassifier"),
    "mh1dcnn-lstm": ("dfstrans.baselines.mh1dcnn_lstm", "MH1DCNNLSTMClassifier"),
    "minirocket": ("dfstrans.baselines.minirocket", "MiniRocketClassifier"),
    "boosting": ("dfstrans.baselines.boosting", "BoostingClassifier"),
    "neighbours": ("dfstrans.baselines.neighbours", "NeighbourClassifier"),
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


def load_detector(folder: str | Path) -> EpisodeClassifier:
    """Read a saved model of any kind."""
    from dfstrans.artifact import read_record

    return MODELS[read_record(Path(folder)).estimator].load(folder)
