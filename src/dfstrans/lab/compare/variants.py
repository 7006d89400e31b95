"""Names of models to compare: every kind of detector, variants of DFStrans, and any of them with other settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from dfstrans.detectors.registry import detector_kind, detector_names
from dfstrans.errors import DfstransError, did_you_mean, option_name
from dfstrans.lab.compare import LEAKAGE
from dfstrans.settings import PRESETS, setting_name

if TYPE_CHECKING:  # names need no torch
    from dfstrans.data.episodes import Episodes
    from dfstrans.detectors.base import EpisodeClassifier


def check_names(setting: str, names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse unknown and repeated names; the error lists the known ones."""
    known = list(known)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise DfstransError(
            f"expected {option_name(setting)} among {', '.join(known)}, got {', '.join(unknown) or 'none'}; "
            f"{did_you_mean(unknown[0] if unknown else '', known)}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DfstransError(
            f"expected each of {option_name(setting)} once, got {', '.join(twice)} more than once; name it once"
        )


class Variant(NamedTuple):
    """A kind of detector with some settings of its own."""

    kind: str
    settings: dict[str, Any] = {}  # noqa: RUF012 never changed
    needs: str | None = None  # an optional package
    named: dict[str, Any] = {}  # noqa: RUF012 settings in the name itself, which no option overrides


UNMIXED = {"mixup": 0.0, "sensor_dropout": 0.0}
PLAIN: dict[str, dict[str, Any]] = {
    "dfstrans": {"members": "network", **UNMIXED, "time_shift": 0.0},
    "mh1dcnn-lstm": {**UNMIXED, "time_shift": 0.0},
    **dict.fromkeys(("inceptiontime", "tapnet", "mlstm-fcn"), UNMIXED),
}
"""Settings that turn off random augmentation; only networks with segments have a time shift."""
ALONE = {"members": "network"}
PAPER_WIDTHS = ("filters", "heads", "feedforward", "head_width")
VARIANTS: dict[str, Variant] = {
    **{name: Variant(name) for name in (*detector_names(), LEAKAGE)},
    "committee": Variant("dfstrans"),  # the default of `Diagnoser`; all other variants are networks alone
    "dfstrans": Variant("dfstrans", ALONE),
    "minirocket": Variant("minirocket", needs="aeon"),
    "inceptiontime-long": Variant("inceptiontime", {"kernels": (49, 99, 199)}),  # the paper's kernels for the elevator
    "dfstrans-paper": Variant("dfstrans", {**ALONE, **PRESETS["paper"]}),
    "dfstrans-paper-size": Variant(
        "dfstrans", ALONE | {name: PRESETS["paper"][name] for name in ("embedding", *PAPER_WIDTHS)}
    ),  # the paper's widths, trained like `dfstrans`
    **{f"{name}-plain": Variant(name, changes) for name, changes in PLAIN.items()},  # for overlapping episodes
    "dfstrans-vanilla": Variant("dfstrans", {**ALONE, "encoding": "vanilla"}),
    "dfstrans-paper-vanilla": Variant("dfstrans", {**ALONE, **PRESETS["paper"], "encoding": "vanilla"}),
    # other segment embeddings, without statistics
    "dfstrans-cnn": Variant("dfstrans", {**ALONE, "embedding": "cnn", "quantile_features": 0}),
    "dfstrans-linear": Variant("dfstrans", {**ALONE, "embedding": "linear", "quantile_features": 0}),
    "dfstrans-tanh": Variant("dfstrans", {**ALONE, "embedding": "tanh", "quantile_features": 0}),
}
"""Models by their name in `--models`; `dfstrans` is the tuned network alone. Settings may follow, see `variant`."""
CHANGE = "+"  # separates a name and its changed settings


def variant(name: str) -> Variant:
    """The variant with this name, one of `VARIANTS`, with the settings that follow the name.

    >>> variant("dfstrans+mixup=0+schedule=constant").named
    {'mixup': 0.0, 'schedule': 'constant'}
    """
    base, *changes = _pieces(name)
    check_names("models", [base], VARIANTS)
    named: dict[str, Any] = {}
    for text in changes:
        setting, value = _change(name, VARIANTS[base].kind, text)
        if setting in named:
            raise DfstransError(f"expected each setting once after {CHANGE}, got {setting} twice in {name!r}; keep one")
        named[setting] = value
    return VARIANTS[base]._replace(named=named)


def _pieces(name: str) -> list[str]:
    """Split a name from its changes; a value may contain the separator.

    >>> _pieces("dfstrans-paper+pooling=mean+deviation+seed=1")
    ['dfstrans-paper', 'pooling=mean+deviation', 'seed=1']
    """
    pieces = name.split(CHANGE)
    for place in range(len(pieces) - 1, 1, -1):
        if "=" not in pieces[place] and "=" in pieces[place - 1]:
            pieces[place - 1 : place + 1] = [CHANGE.join(pieces[place - 1 : place + 1])]
    return pieces


def _change(name: str, kind: str, text: str) -> tuple[str, Any]:
    """A setting and its value, from text such as mixup=0."""
    setting, equals, value = text.partition("=")
    detector = kind_of(kind)
    known = list(detector.default_settings())
    if not equals or setting not in known:
        raise DfstransError(
            f"expected a setting of {kind} and its value after {CHANGE} (settings: {', '.join(known)}), got "
            f"{text!r} in {name!r}; {did_you_mean(setting, known)} (for example {kind}{CHANGE}seed=1)"
        )
    try:
        return setting, detector.parse(setting, value)
    except DfstransError as error:
        raise DfstransError(f"expected another value in {name!r}: {error}") from None


def check_models(names: Sequence[str]) -> tuple[str, ...]:
    """The names, after checking that each is known, named once and installed."""
    bases = [_pieces(name)[0] for name in names]
    check_names("models", list(dict.fromkeys(bases)), VARIANTS)
    check_names("models", names, names)
    for name in names:
        package = variant(name).needs
        if package is not None and find_spec(package) is None:
            raise DfstransError(
                f"expected the package {package} for {name}, got none; install it with the extra rivals, "
                "pip install 'dfstrans[rivals]' (see docs/how-to/compare-detectors.md), or omit that model"
            )
    return tuple(names)


def settings_of_model(name: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """All settings of a named model; overrides that it does not have are ignored.

    Settings in the name (`dfstrans+mixup=0`) take precedence over the overrides.
    """
    chosen = variant(name)
    detector = kind_of(chosen.kind).from_settings(**chosen.settings)
    known = detector.all_settings()
    own = {setting: detector.parse(setting, value) for setting, value in overrides.items() if setting in known}
    return {**known, **own, **chosen.named}


def recorded_settings(name: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """The same settings as a run stores them."""
    from dfstrans.lab.compare.runs import as_recorded

    return as_recorded(settings_of_model(name, overrides))


def check_overrides(models: Sequence[str], overrides: dict[str, Any]) -> None:
    """Refuse a setting that no model has."""
    known = {setting for name in models for setting in settings_of_model(name, overrides)}
    for setting in overrides:
        if setting not in known:
            raise DfstransError(
                f"expected settings that one of {', '.join(models)} has, got {setting_name(setting)}; "
                f"{did_you_mean(setting, known)}"
            )


def detector_for(name: str, overrides: dict[str, Any], episodes: Episodes) -> EpisodeClassifier:
    """An unfitted detector that can handle all these episodes, whichever of them it is trained on."""
    from dfstrans.detectors.workflow import suited

    chosen = variant(name)
    settings = {**chosen.settings, **settings_of_model(name, overrides)}  # `members` is an argument, no setting
    return suited(kind_of(chosen.kind).from_settings(**settings), episodes)


def kind_of(name: str) -> type[EpisodeClassifier]:
    """The class of a detector, or of the leakage check."""
    if name != LEAKAGE:
        return detector_kind(name)
    from dfstrans.lab.compare.leakage import LeakageCheck

    return LeakageCheck
