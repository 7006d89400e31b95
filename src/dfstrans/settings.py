"""Frozen settings of the network and its training: the only definition of names, defaults, bounds and help.

The defaults are those of our own network, the preset "tuned"; `PRESETS["paper"]` holds the paper's values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from dfstrans.errors import DfstransError, option_name, showing_options

Encoding = Literal["faithful", "vanilla", "none"]
Embedding = Literal["cnn", "linear", "tanh", "statistics"]
Readout = Literal["sensors", "both"]
Norm = Literal["batch", "renorm"]
Pooling = Literal["mean", "mean+deviation"]
Precision = Literal["auto", "32", "bf16"]
Schedule = Literal["one-cycle", "constant"]
Imbalance = Literal["weighted", "none"]
SelectBy = Literal["pr-auc", "loss"]
ThresholdRule = Literal["f1", "false-alarm-rate", "fixed"]
Preset = Literal["tuned", "paper"]
Members = Literal["committee", "network", "trees"]
MIN_WIDTH = 32  # of an embedding of statistics
MIN_FILTERS = 8  # of a CNN
DFSTRANS = "dfstrans"  # the kind of detector that can diagnose

OPTIONS = (  # settings with their own command-line option; all others are given with --set
    "segment_length",
    "epochs",
    "batch_size",
    "learning_rate",
    "threshold_rule",
    "threshold_value",
    "precision",
    "seed",
)


class Settings(BaseModel):
    """A frozen group of settings that rejects unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    name_for_user: ClassVar[Any] = staticmethod(option_name)
    of_earlier_models: ClassVar[Mapping[str, Any]] = {}  # values of settings that models saved earlier lack

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise DfstransError(_error_text(type(self), error)) from None

    @classmethod
    def parse(cls, name: str, value: Any) -> Any:
        """Parse the value of one setting from text or TOML, and check its type and bounds.

        >>> TrainingSettings.parse("gradient_clip", "none"), TrainingSettings.parse("precision", 32)
        (None, '32')
        """
        field = cls.model_fields[name]
        kind, optional = _kind(field)
        if value is None or (optional and str(value).lower() == "none"):
            return None
        if get_origin(kind) is Literal:
            value = str(value)
        elif get_origin(kind) is tuple and isinstance(value, str):
            value = value.split(",")
        try:
            checked: Any = Annotated[kind, *field.metadata] if field.metadata else kind
            return TypeAdapter(checked, config=cls.model_config).validate_python(value)
        except ValidationError as error:
            problem = {**error.errors()[0], "loc": (name,), "input": value}
            raise DfstransError(_describe_problem(cls, problem)) from None


_ANY = object()


def setting_name(name: str, value: Any = _ANY) -> str:
    """Format a detector setting, optionally with a value, the way the user writes it.

    >>> setting_name("heads", 4)
    'heads=4'
    >>> from dfstrans.errors import settings_as_options
    >>> with settings_as_options():
    ...     setting_name("heads", 4), setting_name("heads"), setting_name("epochs", 4)
    ('--set heads=4', '--set heads=…', '--epochs 4')
    """
    if showing_options() and name not in OPTIONS:
        return f"--set {name}={'…' if value is _ANY else value}"
    return option_name(name) if value is _ANY else option_name(name, value)


def command_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert settings to command-line options; settings without their own option become values of `set`.

    >>> command_options({"epochs": 3, "mixup": 0.0, "heads": 4})
    {'epochs': 3, 'set': ('mixup=0.0', 'heads=4')}
    """
    shown = {name: value for name, value in settings.items() if name in OPTIONS}
    others = tuple(f"{name}={_as_text(value)}" for name, value in settings.items() if name not in OPTIONS)
    return {**shown, **({"set": others} if others else {})}


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


class DetectorSettings(Settings):
    """Settings of a detector; the command line takes them with `--set` unless they have their own option."""

    name_for_user: ClassVar[Any] = staticmethod(setting_name)


def check_kernel(points: int) -> None:
    """Reject a kernel whose convolution would change the length."""
    if points % 2 == 0:
        raise ValueError(
            f"expected {setting_name('kernel')} to be odd, so that a convolution keeps the length, got {points}; use "
            f"{points - 1} or {points + 1}"
        )


class NetworkSettings(DetectorSettings):
    """User-facing settings of a DFStrans network; `NetworkShape` fills in those that are None."""

    segment_length: int | None = Field(
        default=None,
        ge=1,
        description="Points per segment; by default a tenth of the median episode, at most 100.",
    )
    blocks: int = Field(
        default=3, ge=1, description="Convolution blocks of the embedding."
    )  # tab:mh1dcnn prints 4, but the printed widths 240 and 120 and all parameter counts require 3
    filters: int | None = Field(
        default=None,
        ge=1,
        description="Filters per convolution block; by default the fewest that heads and encoding allow.",
    )
    kernel: int = Field(default=5, ge=1, description="Points of a convolution kernel; odd.")  # tab:mh1dcnn
    width: int | None = Field(
        default=None,
        ge=2,
        description="Width of an embedding of statistics alone; by default 32, or more if the encoding needs it.",
    )
    heads: int = Field(default=2, ge=1, description="Attention heads.")  # wide ones are fast [ADR 28]
    feedforward: int = Field(default=128, ge=1, description="Width of the feed-forward network.")
    head_width: int = Field(default=128, ge=1, description="Width of the classification head.")
    pooling: Pooling = Field(
        default="mean+deviation",
        description="Summary of all segments for the head: their mean, or mean and standard deviation.",
    )
    layers: int = Field(default=1, ge=1, description="Spatio-temporal layers.")  # tab:trans_hyp
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout rate.")
    norm: Norm = Field(
        default="renorm",
        description="Normalisation statistics in training: of the batch, or as in prediction (renorm).",
    )
    encoding: Encoding = Field(default="faithful", description="Positional encoding.")
    embedding: Embedding = Field(
        default="statistics",
        description="How a segment becomes a vector: by a CNN per sensor, a projection, or its statistics alone.",
    )
    quantile_features: int = Field(
        default=16,
        ge=0,
        le=256,  # quantiles are estimated from about 20 000 segments at most
        description="Quantile steps that encode a segment's statistics next to its embedding; 0: no statistics.",
    )
    machine_features: bool = Field(
        default=True, description="Also compare the statistics with what is normal for the machine."
    )
    readout: Readout = Field(
        default="both",
        description="What the head sees: each sensor by itself, or both that and a summary over all sensors.",
    )

    @field_validator("quantile_features")
    @classmethod
    def _check_steps(cls, steps: int) -> int:
        if steps == 1:  # one step spans the whole range and distinguishes nothing
            raise ValueError("expected 0, for no statistics, or at least 2 steps, got 1")
        return steps

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        """Check what is known so far; the filters or the width may still be open."""
        check_kernel(self.kernel)
        if self.embedding == "statistics":
            if self.filters is not None:
                raise ValueError(
                    f"expected no {setting_name('filters')} without a CNN, got {self.filters}; use "
                    f"{setting_name('embedding', 'cnn')}, or {setting_name('width')} for an embedding of statistics"
                )
            if not self.quantile_features:
                raise ValueError(
                    f"expected {setting_name('quantile_features')} of at least 2 with "
                    f"{setting_name('embedding', 'statistics')}, got 0, which leaves nothing to embed; use "
                    f"{setting_name('embedding', 'cnn')}"
                )
            if self.segment_length == 1:
                raise ValueError(
                    f"expected {setting_name('segment_length')} to be at least 2, since a segment of one point does "
                    "not move, got 1; use longer segments"
                )
            if self.width is not None:
                self._check_width(self.width, setting_name("width"))
            return self
        points = None if self.segment_length is None else self.segment_length >> self.blocks
        if points == 0:
            raise ValueError(
                f"expected {setting_name('segment_length')} to be at least {2**self.blocks}, since each of "
                f"{self.blocks} convolution blocks halves a segment, got {self.segment_length}; use longer "
                f"segments or fewer {setting_name('blocks')}"
            )
        if points and self.filters:
            self._check_width(points * self.filters, "filters × segment length ÷ 2^blocks")
        return self

    def _check_width(self, width: int, source: str) -> None:
        if width % 2:
            raise ValueError(
                f"expected an even embedding width, got {width} ({source}); use an even number of "
                f"{setting_name('width' if self.embedding == 'statistics' else 'filters')}"
            )
        if width % self.heads:
            divisors = [str(count) for count in range(1, width + 1) if width % count == 0]
            raise ValueError(
                f"expected {setting_name('heads')} to divide the embedding width {width} ({source}), got {self.heads}; "
                f"use one of {', '.join(divisors)}"
            )


class NetworkShape(NetworkSettings):
    """Complete settings of a DFStrans network for given episodes."""

    of_earlier_models: ClassVar[Mapping[str, Any]] = {"machine_features": False, "readout": "sensors"}

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    segment_length: int = Field(ge=1)

    @classmethod
    def paper(cls, **values: Any) -> Self:
        """Return the paper's network with the given values, which include `n_sensors` and `segment_length`."""
        paper = {name: value for name, value in PRESETS["paper"].items() if name in cls.model_fields}
        return cls(**paper | values)

    @property
    def d_model(self) -> int:
        """Width of the embedding of one segment of one sensor: d = M = filters · ⌊w_l / 2^blocks⌋ after a CNN."""
        return self.width_for(self.segment_length)

    def width_for(self, segment_length: int) -> int:
        """Return the width of the embedding for another segment length."""
        if self.embedding == "statistics":
            return self.width or MIN_WIDTH
        return (self.filters or MIN_FILTERS) * (segment_length >> self.blocks)


class DecisionSettings(DetectorSettings):
    """Settings of every kind of detector: validation, class weights and threshold."""

    imbalance: Imbalance = Field(
        default="weighted", description="Weight the rarer class more, or use the plain loss (none)."
    )
    validation_fraction: float = Field(
        default=0.15, gt=0, lt=1, description="Share of the episodes held out if no validation part is given."
    )
    threshold_rule: ThresholdRule = Field(default="f1", description="How to choose the threshold in validation.")
    threshold_value: float | None = Field(
        default=None, description="The threshold (fixed), or the highest false-alarm rate (false-alarm-rate)."
    )
    seed: int = Field(default=0, ge=0, description="Seed of split, weights, order and noise.")

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        rule, value = option_name("threshold_rule", self.threshold_rule), self.threshold_value
        if self.threshold_rule == "f1" and value is not None:
            raise ValueError(
                f"expected no {option_name('threshold_value')} with {rule}, got {value}; drop it, or choose "
                f"{option_name('threshold_rule', 'fixed')} or {option_name('threshold_rule', 'false-alarm-rate')}"
            )
        if self.threshold_rule != "f1" and (value is None or not 0 <= value <= 1):
            example = 0.5 if self.threshold_rule == "fixed" else 0.01
            raise ValueError(
                f"expected {option_name('threshold_value')} between 0 and 1 with {rule}, "
                f"got {'none' if value is None else value}; set it, such as {option_name('threshold_value', example)}"
            )
        return self


class TrainingSettings(DecisionSettings):
    """User-facing settings of training; `TrainingPlan` fills in those that are None."""

    epochs: int | None = Field(
        default=None, ge=1, description="Maximum epochs; by default enough for 600 steps, 20 to 100."
    )
    batch_size: int | None = Field(
        default=None, ge=1, description="Episodes per training step; by default a tenth of an epoch, 16 to 64."
    )
    learning_rate: float = Field(default=2e-3, gt=0, description="Highest learning rate of the schedule.")
    weight_decay: float = Field(default=0.05, ge=0, description="AdamW weight decay, on matrices only.")
    patience: int = Field(
        default=20,
        ge=1,
        description="Epochs without improvement before stopping; a one-cycle schedule always runs to its end.",
    )
    normals_per_anomaly: float | None = Field(
        default=None,
        ge=1,
        description="Maximum normal episodes per anomaly in an epoch, resampled each epoch; all by default.",
    )
    select_by: SelectBy = Field(default="pr-auc", description="Validation metric that selects the best epoch.")
    gradient_clip: float | None = Field(default=1.0, gt=0, description="Largest gradient norm; none: no clipping.")
    schedule: Schedule = Field(default="one-cycle", description="Learning-rate schedule.")
    sensor_dropout: float = Field(default=0.0, ge=0, lt=1, description="Probability of dropping a sensor in training.")
    noise: float = Field(default=0.0, ge=0, description="Noise in training, as a share of a sensor's range.")
    time_shift: float = Field(
        default=0.5, ge=0, le=1, description="Largest random shift in time in training, as a share of a segment."
    )
    mixup: float = Field(
        default=0.3,
        ge=0,
        le=1,  # at 1 all mixing ratios are equally likely; above 1 hardly any episode keeps its label
        description="Beta parameter of mixup, which mixes pairs of episodes in training; 0: off.",
    )
    weight_averaging: float = Field(
        default=0.99, ge=0, lt=1, description="Decay of the moving average of the weights; 0: off."
    )
    precision: Precision = Field(
        default="auto", description="Numeric precision of training; auto: bf16 if the processor supports it."
    )

    def plan(self, n_episodes: int, n_anomalous: int | None = None) -> TrainingPlan:
        """Return the complete settings for a number of episodes; without `n_anomalous`, an epoch takes all of them."""
        drawn = n_episodes
        if n_anomalous is not None:
            drawn = episodes_of_an_epoch(n_episodes, n_anomalous, self.normals_per_anomaly)
        batch_size = self.batch_size or default_batch_size(drawn)
        epochs = self.epochs or default_epochs(drawn, batch_size)
        return TrainingPlan(**self.model_dump() | {"batch_size": batch_size, "epochs": epochs})


class TrainingPlan(TrainingSettings):
    """Complete settings of training on given episodes."""

    epochs: int = Field(ge=1)
    batch_size: int = Field(ge=1)


PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "tuned": {},  # the defaults: a slim network that trains many times faster than the paper's
    # tab:mh1dcnn, tab:trans_hyp ("Dim feedforward 1" is the head's width) and the text, as far as the paper states them
    "paper": {
        "filters": 20,
        "heads": 10,
        "feedforward": 2048,
        "head_width": 512,
        "pooling": "mean",
        "dropout": 0.1,
        "norm": "batch",
        "embedding": "cnn",
        "quantile_features": 0,
        "machine_features": False,
        "readout": "sensors",
        "batch_size": 16,
        "epochs": 200,
        "patience": 40,
        "select_by": "loss",
        "gradient_clip": None,
        "learning_rate": 1e-5,
        "weight_decay": 0.0,
        "schedule": "constant",
        "imbalance": "none",
        "time_shift": 0.0,
        "mixup": 0.0,
        "weight_averaging": 0.0,
    },
}
"""Defaults that `Diagnoser` changes."""

STEPS = 600  # of training; see docs/adr/0020-quantile-features.md


def episodes_of_an_epoch(n_episodes: int, n_anomalous: int, normals_per_anomaly: float | None) -> int:
    """Return the size of an epoch: all episodes, or the anomalous ones and a limited number of normal ones for each.

    >>> episodes_of_an_epoch(1000, 20, None), episodes_of_an_epoch(1000, 20, 2.5), episodes_of_an_epoch(30, 20, 2.5)
    (1000, 70, 30)
    """
    if normals_per_anomaly is None:
        return n_episodes
    return min(n_episodes, n_anomalous + math.ceil(normals_per_anomaly * n_anomalous))


def default_batch_size(n_episodes: int) -> int:
    """Return a tenth of an epoch, 16 to 64: ten steps per epoch, and batches large enough to absorb a single spike."""
    return min(max(n_episodes // 10, 16), 64)


def default_epochs(n_episodes: int, batch_size: int) -> int:
    """Return the number of epochs that make about 600 steps, from 20 to 100.

    >>> [default_epochs(n, default_batch_size(n)) for n in (50, 150, 664, 10_000)]
    [100, 60, 55, 20]
    """
    steps = max(-(-n_episodes // batch_size), 1)
    return min(max(-(-STEPS // steps), 20), 100)


def _error_text(kind: type[Settings], error: ValidationError) -> str:
    """Describe each problem: expected, got, remedy."""
    return "; also ".join(_describe_problem(kind, problem) for problem in error.errors())


def _describe_problem(kind: type[Settings], problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; expected one of: {', '.join(kind.model_fields)}"
    if problem["type"] == "missing":
        return f"expected a value for {kind.name_for_user(name)}, got none; set it"
    if problem["type"] == "value_error":
        return f"{kind.name_for_user(name)}: {message}" if name else message
    field = kind.model_fields.get(name)
    if field is None:
        return f"{name}: {message}, got {problem['input']!r}; correct it"
    default = None if field.is_required() else field.default
    remedy = "correct it" if default is None else f"correct it (the default is {default})"
    return f"expected {kind.name_for_user(name)} to be {_allowed_values(field)}, got {problem['input']!r}; {remedy}"


def _kind(field: FieldInfo) -> tuple[Any, bool]:
    """Return the type of a field without None, and whether None is allowed."""
    kind: Any = field.annotation
    if get_origin(kind) is not UnionType:
        return kind, False
    return next(one for one in get_args(kind) if one is not NoneType), NoneType in get_args(kind)


def _allowed_values(field: FieldInfo) -> str:
    """Describe the values that a field accepts.

    >>> _allowed_values(NetworkSettings.model_fields["dropout"]), _allowed_values(TrainingSettings.model_fields["seed"])
    ('a finite number of at least 0 and below 1', 'a whole number of at least 0')
    >>> _allowed_values(TrainingSettings.model_fields["schedule"])
    'one-cycle or constant'
    """
    kind, _ = _kind(field)
    if get_origin(kind) is Literal:
        *most, last = get_args(kind)
        return f"{', '.join(most)} or {last}" if most else str(last)
    bounds = [
        f"{words} {getattr(limit, name)}"
        for limit in field.metadata
        for name, words in {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}.items()
        if hasattr(limit, name)
    ]
    noun = {int: "a whole number", float: "a finite number", bool: "true or false"}.get(
        kind, "a list" if get_origin(kind) is tuple else "text"
    )
    return f"{noun} {' and '.join(bounds)}".strip()
