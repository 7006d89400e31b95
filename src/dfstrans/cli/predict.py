"""`dfstrans predict`: the anomaly probability and the decision for each episode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dfstrans.cli.machines import Machine, OwnBaseline, compared_with_machines
from dfstrans.cli.options import (
    Data,
    Model,
    reading,
    warn_of_guessing,
    warn_out_of_range,
    with_or_without_labels,
)
from dfstrans.cli.output import AsJson, print_json, remark
from dfstrans.detectors.registry import load_detector
from dfstrans.errors import counted
from dfstrans.files import atomic_write
from dfstrans.model.novelty import NOT_SEEN
from dfstrans.settings import Precision

_DIGITS = "%.6g"  # more only pretend precision; JSON has all digits
app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans predict model new_recordings.csv --out predictions.csv")
@reading
def predict(
    model: Model,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write instead of printing.")] = None,
    precision: Annotated[
        Precision,
        typer.Option(
            help="Numeric precision of a network. auto uses bf16 if the processor supports it: "
            "faster for wide networks, slightly different scores."
        ),
    ] = "32",
    machine: Machine = None,
    own_baseline: OwnBaseline = False,
    as_json: AsJson = False,
) -> None:
    """Predict the anomaly probability of each episode and whether it is anomalous."""
    from dfstrans.detectors.workflow import predict_table, scorable  # loads torch

    detector = load_detector(model).predict_in(precision)
    episodes = with_or_without_labels(detector, data, read)
    warn_of_guessing(detector.chance_check)
    episodes, skipped = scorable(detector, episodes, remark)
    detector, episodes, unknown = compared_with_machines(detector, episodes, machine, own_baseline)
    table = predict_table(detector, episodes)
    outside = warn_out_of_range(detector, episodes)
    unlike = int((table["novelty"] > 1).sum())
    if unlike:
        remark(f"{NOT_SEEN}, since unlike anything in training: {unlike} of {counted(len(table), 'episode')}")
    if out is not None:
        with atomic_write(out) as temporary:
            table.to_csv(temporary, index=False, float_format=_DIGITS)
        remark(f"predictions of {counted(len(table), 'episode')} written to {out}")
    if as_json:
        rows = table.astype({"novelty": object}).where(table.notna(), None).to_dict(orient="records")
        known = {"threshold": detector.threshold_.value, "out_of_range": outside, "skipped": skipped}
        print_json({**known, "without_baseline": unknown, "predictions": rows})
    elif out is None:
        print(table.to_csv(index=False, float_format=_DIGITS), end="")
