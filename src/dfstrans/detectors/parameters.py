"""Estimator settings, given as constructor arguments, within `network` and `training`, or by flat name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from sklearn.base import BaseEstimator

from dfstrans.errors import DfstransError, did_you_mean
from dfstrans.settings import DecisionSettings, Settings

GivenSettings = Mapping[str, Any] | Settings | None
GROUPS = ("network", "training")  # arguments that hold the settings without their own argument


class Configurable(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator whose settings are the fields of two settings classes.

    The most common settings are constructor arguments; the others are in the arguments `network` and `training`, and
    `get_params`, `set_params` and `GridSearchCV` access them as `network__heads`.
    """

    estimator_name: ClassVar[str]  # in model.json and on the command line
    network_kind: ClassVar[type[Settings]]  # user-facing settings of the network or other model
    shape_kind: ClassVar[type[Settings]]  # the same, complete for given episodes
    training_kind: ClassVar[type[DecisionSettings]] = DecisionSettings
    plan_kind: ClassVar[type[DecisionSettings]] = DecisionSettings
    own_defaults: ClassVar[Mapping[str, Any]] = {}  # defaults that differ from those of the settings classes
    fixed_settings: ClassVar[Mapping[str, Any]] = {}  # settings that make no sense for this kind

    @classmethod
    def from_settings(cls, **settings: Any) -> Self:
        """Create a detector from settings by name, as values or text, checked as far as possible without data.

        >>> from dfstrans import Diagnoser
        >>> Diagnoser.from_settings(epochs="3", heads="4")
        Diagnoser(epochs=3, network={'heads': 4})
        """
        values = {cls.parameter_name(name): cls.parse(name, value) for name, value in settings.items()}
        detector = cls().set_params(**values)
        for kind in (cls.network_kind, cls.training_kind):
            if not any(field.is_required() for field in kind.model_fields.values()):
                detector._settings(kind)
        return detector

    @classmethod
    def default_settings(cls) -> dict[str, Any]:
        """Return every setting with its default; None means off, or chosen from the data."""
        fields = {**cls.network_kind.model_fields, **cls.training_kind.model_fields}
        defaults = {name: None if field.is_required() else field.default for name, field in fields.items()}
        hidden = ("n_sensors", *cls.fixed_settings)
        return {name: value for name, value in (defaults | dict(cls.own_defaults)).items() if name not in hidden}

    def all_settings(self) -> dict[str, Any]:
        """Return every setting with its value, wherever it was given; None means off, or chosen from the data."""
        arguments = super().get_params(deep=False)
        for group in GROUPS:
            for name in _user_settings(arguments.get(group)):
                place = self.parameter_name(name).removesuffix(f"__{name}")
                if place != group:
                    right = f"as the argument {name}" if place == name else f"within {place}"
                    raise DfstransError(f"expected {name} {right}, got it within {group}; move it there")
        known = self.default_settings()
        direct = {name: value for name, value in arguments.items() if name in known and value is not None}
        return known | self._preset_settings() | self._grouped_settings() | direct

    @classmethod
    def parameter_name(cls, setting: str) -> str:
        """Return the name of a setting in `get_params`, such as `epochs`, or `network__heads` in a group."""
        if setting in inspect.signature(cls).parameters:
            return setting
        known = cls.default_settings()
        if setting not in known:
            raise DfstransError(
                f"expected a setting of {cls.estimator_name}, got {setting!r}; {did_you_mean(setting, known)} "
                f"(`dfstrans summary --list-settings --model {cls.estimator_name}` lists them all)"
            )
        return f"{'network' if setting in cls.network_kind.model_fields else 'training'}__{setting}"

    @classmethod
    def parse(cls, setting: str, text: Any) -> Any:
        """Parse the value of a single setting from text, and check it."""
        for kind in (cls.network_kind, cls.training_kind):
            if setting in kind.model_fields:
                return kind.parse(setting, text)
        return text

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all arguments and, if `deep`, the settings within `network` and `training` (`network__heads`)."""
        arguments: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return arguments
        known = self.default_settings()
        values = known | self._preset_settings() | self._grouped_settings()
        nested = {self.parameter_name(name): values[name] for name in known if name not in arguments}
        return arguments | nested

    def set_params(self, **params: Any) -> Self:
        """Set arguments, and settings within `network` and `training` (`network__heads=4`)."""
        super().set_params(**{name: value for name, value in params.items() if name.partition("__")[0] not in GROUPS})
        for name, value in params.items():
            group, nested, setting = name.partition("__")
            if group not in GROUPS:
                continue
            if not nested:
                super().set_params(**{group: value})
            elif self.parameter_name(setting) != name:
                raise DfstransError(f"expected {self.parameter_name(setting)}, got {name}; use that name")
            else:
                setattr(self, group, {**_user_settings(getattr(self, group)), setting: value})
        return self

    def _preset_settings(self) -> dict[str, Any]:
        """Return the settings that the preset changes."""
        return {}

    def _grouped_settings(self) -> dict[str, Any]:
        return {name: value for group in GROUPS for name, value in _user_settings(getattr(self, group, None)).items()}

    def _settings(self, kind: Any, **values: Any) -> Any:
        """Build a settings object of one kind; `values` are those that the user cannot set."""
        every = self.all_settings() | dict(self.fixed_settings) | values
        return kind(**{name: value for name, value in every.items() if name in kind.model_fields})


Kind = TypeVar("Kind", bound=Configurable)


def _user_settings(group: GivenSettings) -> dict[str, Any]:
    """Return the settings that the user put into `network` or `training`."""
    if group is None:
        return {}
    return group.model_dump(exclude_unset=True) if isinstance(group, Settings) else dict(group)


def describe_arguments(kind: type[Kind]) -> type[Kind]:
    """Replace `{settings}` in the docstring of a class by the help of its arguments, from the settings classes."""
    fields = {**kind.network_kind.model_fields, **kind.training_kind.model_fields}
    names = [name for name in inspect.signature(kind).parameters if name in fields]
    lines = [f"{name}: {fields[name].description}{_choices(fields[name].annotation)}" for name in names]
    kind.__doc__ = (kind.__doc__ or "").replace("{settings}", "\n        ".join(lines))
    return kind


def _choices(annotation: Any) -> str:
    return f" One of {', '.join(get_args(annotation))}." if get_origin(annotation) is Literal else ""
