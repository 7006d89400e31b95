from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from dfstrans.cli.compare import compare
from dfstrans.cli.inject import THRESHOLD, inject
from dfstrans.cli.train import train
from dfstrans.settings import OPTIONS, NetworkSettings, TrainingSettings


@pytest.mark.parametrize(("command", "other"), [(train, {}), (compare, {}), (inject, THRESHOLD)])
def test_the_help_shows_the_defaults_of_the_settings(command: Callable[..., Any], other: dict[str, Any]) -> None:
    defaults = {**NetworkSettings().model_dump(), **TrainingSettings().model_dump(), **other}
    options = inspect.signature(command).parameters
    assert {*OPTIONS, "set_values", "settings_file"} <= options.keys()
    for name in OPTIONS:
        text = options[name].annotation.__metadata__[0].help
        assert text.endswith(f"(default {defaults[name]})") == (defaults[name] is not None), name


def test_train_has_few_options_besides_those_of_reading() -> None:
    own = [
        name
        for name, one in inspect.signature(train).parameters.items()
        if one.annotation.__metadata__[0].rich_help_panel != "Reading the recordings"
    ]
    assert len(own) <= 17
