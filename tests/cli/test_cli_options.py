from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from dfstrans import Diagnoser
from dfstrans.cli.compare import compare
from dfstrans.cli.inject import PLAIN, THRESHOLD, inject
from dfstrans.cli.train import train


@pytest.mark.parametrize(("command", "other"), [(train, {}), (compare, {}), (inject, {**PLAIN, **THRESHOLD})])
def test_the_help_shows_the_defaults_of_diagnoser(command: Callable[..., Any], other: dict[str, Any]) -> None:
    used = {name: one.default for name, one in inspect.signature(Diagnoser).parameters.items()} | other
    helps = {
        name: one.annotation.__metadata__[0].help
        for name, one in inspect.signature(command).parameters.items()
        if name in used and name not in ("segment_length", "threshold_value", "normals_per_anomaly")  # told in words
    }
    assert {"mixup", "batch_size", "learning_rate", "threshold_rule"} <= helps.keys()
    for name, text in helps.items():
        assert text.endswith(f"(default {'chosen from the data' if used[name] is None else used[name]})"), name
