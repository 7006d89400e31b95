"""From a label of the paper to the function that makes its table or figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from dfstrans.errors import DfstransError, did_you_mean, option_name
from dfstrans.lab.compare.protocols import PROTOCOLS
from dfstrans.lab.compare.variants import check_models, check_names
from dfstrans.lab.paper.printed import DETECTION

if TYPE_CHECKING:  # wrong labels are refused before torch loads
    from dfstrans.lab.paper.request import Outcome, Request


class Target(NamedTuple):
    """A table or figure; `options` are those that not every target has.

    `make` is a function from a request to an outcome, as module.function of this package.
    """

    what: str
    takes: Literal["seconds", "minutes to an hour", "hours to days"]
    make: str
    options: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()  # labels of panels, which are drawn with the whole figure


TABLE = ("data_sets", "protocol", "models", "folds", "threads")
TARGETS: dict[str, Target] = {
    "tab:qresults": Target(
        "detection: DFStrans and its rivals on four data sets", "hours to days", "tables.detection", TABLE
    ),
    "tab:qresults_pe": Target(
        "detection: the vanilla and the faithful encoding", "hours to days", "tables.detection", TABLE
    ),
    "tab:linear_comp": Target(
        "detection: convolutional and linear segment embeddings", "hours to days", "tables.detection", TABLE
    ),
    "tab:timeparams": Target(
        "parameters, and training seconds per epoch (--counts-only: seconds)",
        "hours to days",
        "parameters.time_and_parameters",
        ("data_sets", "models", "threads", "counts_only"),
    ),
    "tab:n_params_s": Target(
        "parameters by number of sensors", "seconds", "parameters.parameters_by_sensors", ("counts_only",)
    ),
    "fig:n_param_s": Target("the same as a figure", "seconds", "parameters.parameters_by_sensors"),
    "fig:frequencyRatio": Target("which frequencies the encodings contain", "seconds", "encodings.encodings"),
    "fig:reconstruction_comparison": Target(
        "how sharply the encodings represent positions", "seconds", "encodings.encodings"
    ),
    "fig:pe_comparisons": Target(
        "the encodings as images", "seconds", "encodings.encodings", panels=("fig:vanilla_pe", "fig:dft_pe")
    ),
    "fig:lsa": Target(
        "a journey over bumps: signals, b^G, and B at two bumps and a quiet moment",
        "minutes to an hour",
        "diagnoses.diagnoses",
        ("model",),
        ("fig:PAJ38", "fig:GSRPAJ38", "fig:lsa_t34", "fig:lsa_t58", "fig:lsa_t75"),
    ),
    "fig:mix": Target(
        "a journey with friction: signals, A^G, a^G, B^G and b^G",
        "minutes to an hour",
        "diagnoses.diagnoses",
        ("model",),
        ("fig:mix1", "fig:mix2", "fig:mix3", "fig:mix4", "fig:mix5"),
    ),
    "fig:lta": Target(
        "one sensor over time: a^(s) of faulty and normal journeys",
        "minutes to an hour",
        "diagnoses.diagnoses",
        ("model",),
        ("fig:paj_ax_local", "fig:paj_ay_local", "fig:paj_id_local"),
    ),
    "fig:at_scores": Target(
        "AT_k by k and kind of fault, with random and bottom weights",
        "minutes to an hour",
        "diagnoses.diagnoses",
        ("model",),
        ("fig:PAJ_AT", "fig:FJ_AT"),
    ),
    "ablation": Target(
        "not in the paper: the gain of each change to its training and network",
        "hours to days",
        "tables.ablation",
        (*TABLE, "seeds"),
    ),
    "machines": Target(
        "not in the paper: the committee, trees and their rivals, on known and on new machines",
        "hours to days",
        "machines.machines",
        TABLE,
    ),
}
BESIDE = {*DETECTION, "machines"}  # tables that a part must not replace
WITHOUT_RESULT: dict[str, str] = {
    "fig:st_transformer": "drawing of the network, nothing to compute: see docs/explanation/model.md",
    "fig:notation": "drawing of the notation, nothing to compute: see docs/explanation/model.md",
    "fig:st_att": "drawing of the two attentions, nothing to compute: see docs/explanation/model.md",
    "fig:elevator": "drawing of the elevator, nothing to compute: see docs/reference/elevator.md",
    "fig:1d_multihead": "drawing of the embedding, nothing to compute: see docs/explanation/model.md",
    "tab:elevator": "list of sensors, nothing to compute: see docs/reference/elevator.md",
    "tab:mh1dcnn": "list of settings, nothing to compute: see PRESETS in dfstrans.settings",
    "tab:trans_hyp": "list of settings, nothing to compute: see PRESETS in dfstrans.settings",
    "tab:hyp_benchmark": "list of settings, nothing to compute: see docs/how-to/compare-detectors.md",
}
"""Labels of the paper that show no result."""


def reproduce(request: Request) -> Outcome:
    """Make a table or a figure of the paper."""
    from dfstrans.lab.paper.request import QUICK, with_record  # loads torch

    request = replace(request, target=target_of(request.target))
    _check_options(request)
    if request.quick:
        request = replace(request, out=request.out / "quick", folds=QUICK["folds"], seeds=1)
    module, _, function = TARGETS[request.target].make.partition(".")
    make = getattr(import_module(f"dfstrans.lab.paper.{module}"), function)
    return with_record(request, cast("Outcome", make(request)))


def target_of(label: str) -> str:
    """The target of a label, which may name a panel; unknown labels and labels without a result are refused."""
    if label in WITHOUT_RESULT:
        raise DfstransError(
            f"expected a table or figure that shows a result ({', '.join(TARGETS)}), got {label}, which is a "
            f"{WITHOUT_RESULT[label]}; choose another"
        )
    whole = next((name for name, target in TARGETS.items() if label in target.panels), label)
    if whole not in TARGETS:
        raise DfstransError(f"expected one of {', '.join(TARGETS)}, got {label!r}; {did_you_mean(label, [*TARGETS])}")
    return whole


def would_replace(request: Request) -> bool:
    """Whether a part of a table would overwrite the whole one, so that it must only be shown."""
    if request.finished:
        return bool(request.part)
    smaller = [name for name in request.part if name != "folds" or request.folds < type(request).folds]
    return bool(smaller) and not request.quick and request.target in BESIDE and table_path(request).exists()


def table_path(request: Request) -> Path:
    """Where the tables of a request are written."""
    return (request.out / "quick" if request.quick else request.out) / f"{request.name}.md"


def _check_options(request: Request) -> None:
    """Refuse options that the target does not have, and unknown names."""
    from dfstrans.lab.paper.request import DATA_SETS  # loads torch

    for name in request.options:
        having = [label for label, target in TARGETS.items() if name in target.options]
        useless = request.counts_only and name != "counts_only"  # counts need no data
        if request.target not in having or useless:
            raise DfstransError(
                f"expected {option_name(name)} only with {', '.join(having)}{' with times' if useless else ''}, got it "
                f"with {request.target}; omit it"
            )
    known: dict[str, tuple[Sequence[str] | None, Iterable[str]]] = {
        "data_sets": (request.data_sets, DATA_SETS),
        "protocol": (request.protocols, PROTOCOLS),
    }
    for name, (given, names) in known.items():
        if given is not None:
            check_names(name, given, names)
    if request.models is not None:
        check_models(request.models)
