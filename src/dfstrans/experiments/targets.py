"""What of the paper can be reproduced, by the labels that it has there."""

from __future__ import annotations

from typing import Literal, NamedTuple

from dfstrans.errors import DfstransError
from dfstrans.experiments.names import did_you_mean


class Target(NamedTuple):
    """A table or a figure."""

    what: str
    takes: Literal["seconds", "hours to days"]


TARGETS: dict[str, Target] = {
    "tab:qresults": Target("detection: DFStrans and its rivals on four data sets", "hours to days"),
    "tab:qresults_pe": Target("detection: the vanilla and the faithful encoding", "hours to days"),
    "tab:linear_comp": Target("detection: how segments become vectors", "hours to days"),
    "tab:timeparams": Target("parameters, and training seconds per epoch (--counts-only: seconds)", "hours to days"),
    "tab:n_params_s": Target("parameters by number of sensors", "seconds"),
    "fig:n_param_s": Target("the same as a figure", "seconds"),
    "fig:frequencyRatio": Target("which frequencies the encodings hold", "seconds"),
    "fig:reconstruction_comparison": Target("what the encodings keep of positions", "seconds"),
    "fig:pe_comparisons": Target("the encodings as images", "seconds"),
}


def check_target(name: str) -> None:
    """Refuse a label that cannot be reproduced, naming those that can."""
    if name not in TARGETS:
        raise DfstransError(f"expected one of {', '.join(TARGETS)}, got {name!r}; {did_you_mean(name, list(TARGETS))}")
