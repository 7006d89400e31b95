"""Constructors made from settings, so that each argument is defined, explained and checked in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from dfstrans.detectors.base import EpisodeClassifier
from dfstrans.settings import PRESETS

Kind = TypeVar("Kind", bound=type[EpisodeClassifier])


def arguments_from_settings(*, without: tuple[str, ...] = (), **defaults: Any) -> Callable[[Kind], Kind]:
    """Give a kind of detector a constructor with one argument per setting.

    The settings are those of its network and of its training but for `without`. The defaults are theirs, as `Diagnoser`
    has them where it differs, or the ones given here. A setting without a default is chosen from the data.
    """

    def decorate(kind: Kind) -> Kind:
        fields = {**kind.network_kind.model_fields, **kind.training_kind.model_fields}
        own = {name: None if field.is_required() else field.default for name, field in fields.items()}
        shared = {name: PRESETS["tuned"][name] for name in ("batch_size", "mixup", "sensor_dropout")}
        names = [name for name in fields if name not in ("n_sensors", *without)]
        values = {name: {**own, **shared, **defaults}[name] for name in names}

        def __init__(self: Any, **given: Any) -> None:  # noqa: N807
            unknown = [name for name in given if name not in values]
            if unknown:
                raise TypeError(f"{kind.__name__} has no argument {unknown[0]!r}; it has {', '.join(values)}")
            for name, default in values.items():
                setattr(self, name, given.get(name, default))

        parameter = inspect.Parameter
        one_by_one = [parameter(name, parameter.KEYWORD_ONLY, default=default) for name, default in values.items()]
        __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter("self", parameter.POSITIONAL_OR_KEYWORD), *one_by_one]
        )
        kind.__init__ = __init__  # type: ignore[method-assign]
        return kind

    return decorate
