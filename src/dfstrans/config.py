"""Frozen settings of the network and of its training; unknown keys are refused."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dfstrans.errors import DfstransError

Encoding = Literal["faithful", "vanilla", "none"]
Embedding = Literal["cnn", "linear", "tanh"]
Precision = Literal["auto", "32", "bf16"]
Schedule = Literal["one-cycle", "constant"]
Imbalance = Literal["weighted", "none"]
ThresholdRule = Literal["f1", "false-alarm-rate", "fixed"]


class Settings(BaseModel):
    """A frozen group of settings that refuses names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise DfstransError(_readable(type(self), error)) from None


class NetworkSettings(Settings):
    """The shape of a DFStrans network; the defaults are the paper's where its parameter counts fix them."""

    n_sensors: int = Field(ge=1, description="Sensors of an episode.")
    segment_length: int = Field(ge=1, description="Points of a segment.")
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
    layers: int = Field(default=1, ge=1, description="Spatio-temporal layers.")  # tab:trans_hyp
    dropout: float = Field(
        default=0.3, ge=0, lt=1, description="Dropout rate."
    )  # tab:trans_hyp: 0.1; see docs/training.md
    encoding: Encoding = Field(default="faithful", description="Positional encoding.")
    embedding: Embedding = Field(default="cnn", description="How a segment becomes a vector.")

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
                f"expected segments of at least {2**self.blocks} points for {self.blocks} convolution blocks, "
                f"got {self.segment_length}; use a longer segment_length or fewer blocks"
            )
        if self.d_model % 2:
            raise ValueError(
                f"expected an even embedding width, got {self.d_model} = filters {self.filters} × "
                f"{self.d_model // self.filters} points; use an even number of filters"
            )
        if self.d_model % self.heads:
            raise ValueError(
                f"expected a number of heads that divides the embedding width {self.d_model}, got {self.heads}"
            )
        if self.kernel % 2 == 0:
            raise ValueError(f"expected an odd kernel, so that a convolution keeps the length, got {self.kernel}")
        return self


class TrainingSettings(Settings):
    """How a network is trained, and how its threshold is chosen."""

    epochs: int = Field(default=20, ge=1, description="Most epochs to train.")
    batch_size: int = Field(default=16, ge=1, description="Episodes per training step.")  # the paper's
    learning_rate: float = Field(default=6e-4, gt=0, description="Highest learning rate of the schedule.")
    weight_decay: float = Field(default=0.05, ge=0, description="AdamW weight decay, on matrices only.")
    patience: int = Field(default=10, ge=1, description="Epochs without a better validation before stopping.")
    gradient_clip: float = Field(default=1.0, gt=0, description="Largest gradient norm.")
    schedule: Schedule = Field(default="one-cycle", description="Learning rate over the epochs.")
    imbalance: Imbalance = Field(default="weighted", description="Weigh the rarer class up, or none: the plain loss.")
    sensor_dropout: float = Field(default=0.15, ge=0, lt=1, description="How often a sensor goes missing in training.")
    noise: float = Field(default=0.02, ge=0, description="Noise in training, as a share of a sensor's range.")
    time_shift: float = Field(
        default=0.5, ge=0, le=1, description="Largest random shift in time in training, as a share of a segment."
    )
    weight_averaging: float = Field(
        default=0.99,
        ge=0,
        lt=1,
        description="Share of the old in the running mean of weights after a step; 0: no mean.",
    )
    validation_fraction: float = Field(
        default=0.15, gt=0, lt=1, description="Share set aside when no validation part is given."
    )
    threshold_rule: ThresholdRule = Field(default="f1", description="How the threshold is chosen on validation.")
    threshold_value: float | None = Field(
        default=None, description="The threshold (fixed), or the most false alarms (false-alarm-rate)."
    )
    precision: Precision = Field(
        default="auto", description="Arithmetic of training; auto: bf16 where the processor has it."
    )
    seed: int = Field(default=0, ge=0, description="Seed of split, weights, order and noise.")

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        if self.threshold_rule == "f1" and self.threshold_value is not None:
            raise ValueError(
                f"expected no threshold_value with threshold_rule='f1', got {self.threshold_value}; "
                "drop it, or choose the rule 'fixed' or 'false-alarm-rate'"
            )
        if self.threshold_rule != "f1" and (self.threshold_value is None or not 0 <= self.threshold_value <= 1):
            raise ValueError(
                f"expected a threshold_value between 0 and 1 with threshold_rule={self.threshold_rule!r}, "
                f"got {self.threshold_value}"
            )
        return self


def _readable(kind: type[BaseModel], error: ValidationError) -> str:
    """Say in one line per setting what was expected and what came."""
    lines = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown setting {name!r}; expected one of: {', '.join(kind.model_fields)}")
        elif problem["type"] == "missing":
            lines.append(f"expected a value for the setting {name!r}, got none")
        elif not name:
            lines.append(problem["msg"].removeprefix("Value error, "))
        else:
            lines.append(f"setting {name!r}: {problem['msg']}, got {problem['input']!r}")
    return "; ".join(lines)
