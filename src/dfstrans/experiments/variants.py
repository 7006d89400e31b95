"""What can be compared: every kind of detector, and DFStrans with one thing changed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from dfstrans.baselines.registry import MODELS
from dfstrans.config import PRESETS
from dfstrans.errors import DfstransError, spelled
from dfstrans.experiments.names import check_names

if TYPE_CHECKING:
    from dfstrans.data.episodes import Episodes
    from dfstrans.estimator import EpisodeClassifier


class Variant(NamedTuple):
    """A kind of detector with some settings of its own."""

    kind: str
    settings: dict[str, Any] = {}  # noqa: RUF012 never changed
    needs: str | None = None  # a package that not everybody has


VARIANTS: dict[str, Variant] = {
    **{name: Variant(name) for name in MODELS},
    "minirocket": Variant("minirocket", needs="aeon"),
    "inceptiontime-long": Variant("inceptiontime", {"kernels": (49, 99, 199)}),  # as the paper has it for the elevator
    "dfstrans-paper": Variant("dfstrans", PRESETS["paper"]),
    "dfstrans-vanilla": Variant("dfstrans", {"encoding": "vanilla"}),
    "dfstrans-paper-vanilla": Variant("dfstrans", {**PRESETS["paper"], "encoding": "vanilla"}),
    "dfstrans-linear": Variant("dfstrans", {"embedding": "linear"}),
    "dfstrans-tanh": Variant("dfstrans", {"embedding": "tanh"}),
}
"""What a name of `--models` stands for; `dfstrans` is the preset `tuned`."""


def check_models(names: Sequence[str]) -> tuple[str, ...]:
    """The names, when there is such a model each, once, and all that it needs is installed."""
    check_names("models", names, VARIANTS)
    for name in names:
        package = VARIANTS[name].needs
        if package is not None and find_spec(package) is None:
            raise DfstransError(
                f"expected the package {package} for {name}, got none; install it with the extra rivals, "
                "pip install 'dfstrans[rivals]' (see docs/rivals.md), or leave that model out"
            )
    return tuple(names)


def settings_of_model(name: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """All arguments of the detector that a name stands for, with those of the overrides that it has."""
    variant = VARIANTS[name]
    detector = MODELS[variant.kind](**variant.settings)
    known = detector.get_params(deep=False)
    return {**known, **{setting: value for setting, value in overrides.items() if setting in known}}


def check_overrides(models: Sequence[str], overrides: dict[str, Any]) -> None:
    """Refuse a setting that no model has."""
    known = {setting for name in models for setting in settings_of_model(name, {})}
    for setting in overrides:
        if setting not in known:
            raise DfstransError(
                f"expected settings that one of {', '.join(models)} has, got {spelled(setting)}; leave it out"
            )


def detector_for(name: str, overrides: dict[str, Any], episodes: Episodes) -> EpisodeClassifier:
    """An unfitted detector that can take all these episodes, whichever of them it is trained on."""
    from dfstrans.pipeline import suited

    return suited(MODELS[VARIANTS[name].kind](**settings_of_model(name, overrides)), episodes)
