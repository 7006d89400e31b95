"""`dfstrans export`: write a saved model as one file that needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dfstrans.cli.options import Model, reading
from dfstrans.cli.output import AsJson, print_json, remark
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError, require_package

app = typer.Typer(add_completion=False)


@app.command(epilog="Example: dfstrans export model --format onnx --data recordings.csv")
@reading
def export(
    model: Model,
    read: dict[str, Any],
    to: Annotated[Literal["onnx"], typer.Option("--format", help="Format to write.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="File to write. Default: MODEL.onnx.")] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Recordings for comparing the export with torch. Default: generated ones."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as one file for `dfstrans.runtime`, which needs no torch.

    The exported network is compared with torch first; the largest difference is recorded in the model card.
    """
    place = model.absolute().with_name(f"{model.absolute().name}.onnx") if out is None else out
    if data is None and read:
        raise DfstransError("expected --data with reading options, got none; add --data, or drop the reading options")
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require_package(package, "onnx", "the export")
    from dfstrans.deploy.onnx_export import export_onnx  # loads torch

    found = export_onnx(model, place, None if data is None else load_episodes(data, **read))
    result = {"written": str(place), "megabytes": round(place.stat().st_size / 1e6, 2), **found.model_dump(mode="json")}
    if as_json:
        print_json(result)
        return
    episodes = f"{found.episodes} {'generated' if found.generated else 'given'} episodes"
    print(f"written   {place}, {result['megabytes']} MB")
    print(f"compared  with torch on {episodes}: a logit differs by at most {found.logit_difference:.2g}")
    if found.generated:
        remark("the comparison used random walks around the training mean; use --data to compare on real recordings")
