"""Frozen settings of the network and of its training; unknown keys are refused."""

from __future__ import annotations

import math
from types import NoneType, UnionType
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from dfstrans.errors import DfstransError, option_name

Encoding = Literal["faithful", "vanilla", "none"]
Embedding = Literal["cnn", "linear", "tanh"]
Norm = Literal["batch", "renorm"]
Pooling = Literal["mean", "mean+deviation"]
Precision = Literal["auto", "32", "bf16"]
Schedule = Literal["one-cycle", "constant"]
Imbalance = Literal["weighted", "none"]
SelectBy = Literal["pr-auc", "loss"]
ThresholdRule = Literal["f1", "false-alarm-rate", "fixed"]
Preset = Literal["tuned", "paper"]
DFSTRANS = "dfstrans"  # the kind of detector that can diagnose


class Settings(BaseModel):
    """A frozen group of settings that refuses names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise DfstransError(_readable(type(self), error)) from None

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The settings that need not be given."""
        return {name: field.default for name, field in cls.model_fields.items() if not field.is_required()}


def check_kernel(points: int) -> None:
    """Refuse a kernel that a convolution of unchanged length cannot have."""
    if points % 2 == 0:
        raise ValueError(
            f"expected {option_name('kernel')} to be odd, so that a convolution keeps the length, got {points}; use "
            f"{points - 1} or {points + 1}"
        )


class NetworkSettings(Settings):
    """The shape of a DFStrans network; the defaults are the paper's where its parameter counts fix them.

    `Diagnoser` builds a slimmer one unless told otherwise, see `PRESETS`.
    """

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    segment_length: int = Field(
        ge=1, description="Points of a segment; in training by default a tenth of the median episode, at most 100."
    )
    blocks: int = Field(
        default=3, ge=1, description="Convolution blocks of the embedding."
    )  # tab:mh1dcnn prints 4; the printed widths 240 and 120 and all counts say 3
    filters: int = Field(default=20, ge=1, description="Filters of a convolution block.")
    kernel: int = Field(default=5, ge=1, description="Points of a convolution kernel; odd.")  # tab:mh1dcnn
    heads: int = Field(default=10, ge=1, description="Attention heads.")  # tab:trans_hyp
    feedforward: int = Field(default=2048, ge=1, description="Width of the feed-forward network.")  # tab:trans_hyp
    head_width: int = Field(
        default=512, ge=1, description="Width of the classification head."
    )  # tab:trans_hyp, "Dim feedforward 1"
    pooling: Pooling = Field(
        default="mean", description="What the head sees of all segments: their mean, or their mean and deviation."
    )
    layers: int = Field(default=1, ge=1, description="Spatio-temporal layers.")  # tab:trans_hyp
    dropout: float = Field(default=0.1, ge=0, lt=1, description="Dropout rate.")  # tab:trans_hyp
    norm: Norm = Field(
        default="batch",
        description="What convolutions are normalised by in training: the batch, or what prediction will use (renorm).",
    )
    encoding: Encoding = Field(default="faithful", description="Positional encoding.")
    embedding: Embedding = Field(default="cnn", description="How a segment becomes a vector.")
    quantile_features: int = Field(
        default=0,
        ge=0,
        le=256,  # quantiles are taken of some 20 000 segments at most
        description="Steps that statistics of a segment are coded in, beside the embedding; 0: no statistics.",
    )

    @field_validator("quantile_features")
    @classmethod
    def _check_levels(cls, steps: int) -> int:
        if steps == 1:  # from the lowest to the highest: nothing is told apart by it
            raise ValueError("expected 0, for no statistics, or at least 2 steps, got 1")
        return steps

    @property
    def d_model(self) -> int:
        """Width of the embedding of one segment of one sensor: d = M = filters · ⌊w_l / 2^blocks⌋."""
        return self.width_for(self.segment_length)

    def width_for(self, segment_length: int) -> int:
        """The embedding width that another segment length would give."""
        return self.filters * (segment_length >> self.blocks)

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        if self.d_model == 0:
            raise ValueError(
                f"expected {option_name('segment_length')} to be at least {2**self.blocks}, since each of "
                f"{self.blocks} convolution blocks halves a segment, got {self.segment_length}; use longer "
                "segments or fewer "
                f"{option_name('blocks')}"
            )
        if self.d_model % 2:
            raise ValueError(
                f"expected an even embedding width, got {self.d_model} = {self.filters} filters × "
                f"{self.d_model // self.filters} points; use an even number of {option_name('filters')}"
            )
        if self.d_model % self.heads:
            divisors = [str(count) for count in range(1, self.d_model + 1) if self.d_model % count == 0]
            raise ValueError(
                f"expected {option_name('heads')} to divide the embedding width {self.d_model} (filters × segment "
                f"length ÷ 2^blocks), got {self.heads}; use one of {', '.join(divisors)}"
            )
        check_kernel(self.kernel)
        return self


class DecisionSettings(Settings):
    """How a detector of any kind is settled: what is set aside, what an anomaly weighs, how the threshold is chosen."""

    imbalance: Imbalance = Field(default="weighted", description="Weigh the rarer class up, or none: the plain loss.")
    validation_fraction: float = Field(
        default=0.15, gt=0, lt=1, description="Share set aside when no validation part is given."
    )
    threshold_rule: ThresholdRule = Field(default="f1", description="How the threshold is chosen on validation.")
    threshold_value: float | None = Field(
        default=None, description="The threshold (fixed), or the most false alarms (false-alarm-rate)."
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
                f"got {'none' if value is None else value}; give one, such as {option_name('threshold_value', example)}"
            )
        return self


class LearningSettings(Settings):
    """How the weights of a network are learned."""

    epochs: int = Field(
        default=40,
        ge=1,
        description="Most epochs to train; of DFStrans by default as many as make 600 steps, 20 to 100.",
    )
    batch_size: int = Field(default=16, ge=1, description="Episodes per training step.")  # the paper's
    learning_rate: float = Field(default=2e-3, gt=0, description="Highest learning rate of the schedule.")
    weight_decay: float = Field(default=0.05, ge=0, description="AdamW weight decay, on matrices only.")
    patience: int = Field(
        default=20,
        ge=1,
        description="Epochs without a better validation before stopping; a one-cycle schedule is run to its end.",
    )
    normals_per_anomaly: float | None = Field(
        default=None,
        ge=1,
        description="Most normal episodes for each anomalous one in an epoch, others in each; all by default.",
    )
    select_by: SelectBy = Field(default="pr-auc", description="What tells the best epoch on the validation part.")
    gradient_clip: float | None = Field(
        default=1.0, gt=0, description="Largest gradient norm; the preset paper has none."
    )
    schedule: Schedule = Field(default="one-cycle", description="Learning rate over the epochs.")
    sensor_dropout: float = Field(default=0.15, ge=0, lt=1, description="How often a sensor goes missing in training.")
    noise: float = Field(default=0.0, ge=0, description="Noise in training, as a share of a sensor's range.")
    time_shift: float = Field(
        default=0.5, ge=0, le=1, description="Largest random shift in time in training, as a share of a segment."
    )
    mixup: float = Field(
        default=0.0,
        ge=0,
        le=1,  # all shares are equally likely then; beyond it, halves abound and hardly an episode keeps its label
        description="How strongly pairs of episodes are mixed in training: a Beta parameter; 0: not.",
    )
    weight_averaging: float = Field(
        default=0.99,
        ge=0,
        lt=1,
        description="Share of the old in the running mean of weights after a step; 0: no mean.",
    )
    precision: Precision = Field(
        default="auto", description="Arithmetic of training; auto: bf16 where the processor has it."
    )


class TrainingSettings(DecisionSettings, LearningSettings):
    """How a network is trained, and how it is settled."""


STEPS = 600  # of training; see docs/adr/0020-levels.md
PRESETS: dict[Preset, dict[str, Any]] = {
    # slim: a fifth of the time of the paper's network; see docs/choosing-the-defaults.md
    "tuned": {
        "filters": None,
        "heads": 8,
        "feedforward": 128,
        "head_width": 128,
        "pooling": "mean+deviation",
        "dropout": 0.0,
        "norm": "renorm",
        "quantile_features": 16,
        "batch_size": None,
        "epochs": None,
        "sensor_dropout": 0.0,
        "mixup": 0.3,
    },
    # tab:mh1dcnn, tab:trans_hyp and the text of the experiments, as far as they are given
    "paper": {
        "filters": 20,
        "heads": 10,
        "feedforward": 2048,
        "head_width": 512,
        "pooling": "mean",
        "dropout": 0.1,
        "norm": "batch",
        "quantile_features": 0,
        "batch_size": 16,
        "epochs": 200,
        "patience": 40,
        "select_by": "loss",
        "gradient_clip": None,
        "learning_rate": 1e-5,
        "weight_decay": 0.0,
        "schedule": "constant",
        "imbalance": "none",
        "sensor_dropout": 0.0,
        "time_shift": 0.0,
        "mixup": 0.0,
        "weight_averaging": 0.0,
    },
}
"""What `Diagnoser` is given beyond the defaults of the settings; "tuned" is its default. None: chosen from the data."""


def episodes_of_an_epoch(n_episodes: int, n_anomalous: int, normals_per_anomaly: float | None) -> int:
    """All of them, or the anomalous ones and at most so many normal ones for each.

    >>> episodes_of_an_epoch(1000, 20, None), episodes_of_an_epoch(1000, 20, 2.5), episodes_of_an_epoch(30, 20, 2.5)
    (1000, 70, 30)
    """
    if normals_per_anomaly is None:
        return n_episodes
    return min(n_episodes, n_anomalous + math.ceil(normals_per_anomaly * n_anomalous))


def default_batch_size(n_episodes: int) -> int:
    """A tenth of an epoch, from 16 to 64: ten steps an epoch, and batch statistics that one spike does not rule."""
    return min(max(n_episodes // 10, 16), 64)


def default_epochs(n_episodes: int, batch_size: int) -> int:
    """As many as make some 600 steps, from 20 to 100: many of few episodes, few of many.

    >>> [default_epochs(n, default_batch_size(n)) for n in (50, 150, 664, 10_000)]
    [100, 60, 55, 20]
    """
    steps = max(-(-n_episodes // batch_size), 1)
    return min(max(-(-STEPS // steps), 20), 100)


def check_settings(settings: dict[str, Any]) -> None:
    """Refuse settings of network and training that no recordings could make right; None is chosen from them later."""
    given = {name: value for name, value in settings.items() if value is not None}
    TrainingSettings(**{name: value for name, value in given.items() if name in TrainingSettings.model_fields})
    heads = max(given.get("heads", 1), 1)
    chosen = {"n_sensors": 1, "segment_length": heads << 20, "filters": 2 * heads}  # a width that the heads divide
    NetworkSettings(**chosen | {name: value for name, value in given.items() if name in NetworkSettings.model_fields})


def _readable(kind: type[BaseModel], error: ValidationError) -> str:
    """Say of each setting what was expected, what came, and what to do."""
    return "; also ".join(_problem(kind, problem) for problem in error.errors())


def _problem(kind: type[BaseModel], problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; expected one of: {', '.join(kind.model_fields)}"
    if problem["type"] == "missing":
        return f"expected a value for {option_name(name)}, got none; give one"
    if problem["type"] == "value_error":
        return f"{option_name(name)}: {message}" if name else message
    field = kind.model_fields.get(name)
    if field is None:
        return f"{name}: {message}, got {problem['input']!r}; correct it"
    default = None if field.is_required() else field.default
    if kind in (NetworkSettings, TrainingSettings):
        default = PRESETS["tuned"].get(name, default)
    remedy = "give such a value" if default is None else f"give such a value (the default is {default})"
    return f"expected {option_name(name)} to be {_in_words(field)}, got {problem['input']!r}; {remedy}"


def _in_words(field: FieldInfo) -> str:
    """What a field takes.

    >>> _in_words(NetworkSettings.model_fields["dropout"]), _in_words(TrainingSettings.model_fields["seed"])
    ('a finite number of at least 0 and below 1', 'a whole number of at least 0')
    >>> _in_words(TrainingSettings.model_fields["schedule"])
    'one-cycle or constant'
    """
    kind: Any = field.annotation
    if get_origin(kind) is UnionType:
        kind = next(one for one in get_args(kind) if one is not NoneType)
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
