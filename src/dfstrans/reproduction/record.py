"""What is kept beside a figure: how it was made, and the numbers in it."""

from __future__ import annotations

import json
import shlex

from dfstrans.artifact import library_versions
from dfstrans.experiments.circumstances import commit
from dfstrans.files import written_atomically
from dfstrans.reproduction.request import Outcome, Request

FIGURES = (".pdf", ".svg", ".png")


def with_record(request: Request, outcome: Outcome) -> Outcome:
    """The outcome, with a JSON file beside the figures if there are any."""
    if not any(path.suffix in FIGURES for path in outcome.written):
        return outcome
    path = request.out / f"{request.target.replace(':', '_')}.json"
    record = {
        "target": request.target,
        "quick": request.quick,
        "command": command(request),
        "seed": request.seed,
        "commit": commit(),
        "versions": library_versions(),
        **outcome.content,
    }
    with written_atomically(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return outcome._replace(written=[*outcome.written, path])


def command(request: Request) -> str:
    """What makes the figure, wherever the recordings are."""
    options = {
        "model": request.model and request.model.name,
        "data": request.data and request.data.name,
        "data_sets": request.data_sets and ",".join(request.data_sets),
        "protocol": request.protocols and ",".join(request.protocols),
        "models": request.models and ",".join(request.models),
        "folds": None if request.quick or request.folds == Request.folds else request.folds,
        "seeds": None if request.seeds == Request.seeds else request.seeds,
        "preset": None if request.preset == Request.preset else request.preset,
        **request.overrides,
    }
    words = ["dfstrans", "reproduce", request.target, "--out", "RESULTS"]
    for name, value in options.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), str(value)]
    return shlex.join([*words, *(["--quick"] if request.quick else [])])
