"""The paper's tables of parameters and of training time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from dfstrans.lab.compare.comparison import ComparisonResult, ResultTable, mean_and_std
from dfstrans.lab.compare.runs import Run, require_some
from dfstrans.lab.paper.printed import BY_SENSORS, COUNTS, SECONDS, SLIPS
from dfstrans.lab.paper.request import (
    DATA_SETS,
    QUICK_LOOK,
    Outcome,
    Request,
    Shape,
    effective_protocol,
    store_path,
    write_target,
)
from dfstrans.lab.paper.tables import model_for, require_data, runs_for
from dfstrans.lab.rivals.inceptiontime import InceptionTime, InceptionTimeSettings
from dfstrans.lab.rivals.mh1dcnn_lstm import MH1DCNNLSTM, MH1DCNNLSTMSettings
from dfstrans.lab.rivals.mlstm_fcn import MLSTMFCN, MLSTMFCNSettings
from dfstrans.lab.rivals.tapnet import TapNet, TapNetSettings
from dfstrans.model.network import DFSTrans
from dfstrans.report.figures import ANOMALOUS, INK
from dfstrans.report.print_figures import new_figure
from dfstrans.settings import NetworkShape

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TIMED_EPOCHS = 2
TIMED = ("dfstrans-paper", "inceptiontime", "tapnet", "mlstm-fcn", "mh1dcnn-lstm")
OF_THE_PAPER = "dfstrans here is the paper's network, which `dfstrans compare` calls dfstrans-paper."
TIMING = (
    "Seconds are the median over the epochs of one split, on the threads of this run, with the paper-like cutting "
    "(the elevator: whole journeys of the chosen preset); the paper does not name its hardware."
)


class Count(NamedTuple):
    """The number of parameters of a network, and the printed one."""

    model: str
    data: str
    parameters: int
    printed: int
    note: str  # why they differ

    @property
    def agrees(self) -> bool:
        """Whether the two are equal."""
        return self.parameters == self.printed


def time_and_parameters(request: Request) -> Outcome:
    """The parameters of each network, and the seconds per epoch [tab:timeparams]."""
    found = counts()
    if request.counts_only:
        return Outcome([_table("tab:timeparams", found)], _content(found))
    names = request.data_sets or tuple(DATA_SETS)
    found = [count for count in found if count.data in names]
    require_data(request, names)
    failed: dict[str, str] = {}
    shown: list[Run] = []
    timing: dict[tuple[str, str], dict[str, Any]] = {}
    times: dict[tuple[str, str], str] = {}
    for name in names:
        models = tuple(model_for(model, name, request.preset) for model in request.models or TIMED)
        protocol = effective_protocol(name, "paper-like")
        store = store_path(request.out, name, protocol, request.preset)
        store = store.with_name(f"timing_{store.name}")
        runs = runs_for(replace(request, folds=1), name, protocol, models, store, failed, TIMED_EPOCHS)
        result = ComparisonResult(models, tuple(runs), 1)
        for model in models:
            place = model.removesuffix("-paper").removesuffix("-long"), name
            timing[place] = result.to_dict()["models"][model]
            times[place] = mean_and_std(result.spreads(model).get("seconds_per_epoch"), 2)
        shown += runs
    if request.finished:
        require_some(request.out, shown)
    table = _table("tab:timeparams", found)
    rows = [
        (*row, times.get((count.model, count.data), "–"), f"{SECONDS[count.model][count.data]:.2f}", note)
        for (*row, note), count in zip(table.rows, found, strict=True)
    ]
    timed = ResultTable(
        f"{QUICK_LOOK if request.quick else ''}{table.title}",
        (*table.columns[:-1], "s / epoch", "s / epoch printed", table.columns[-1]),
        tuple(rows),
        (*table.notes, TIMING),
    )
    content = {f"{model}, {data}": times for (model, data), times in timing.items()}
    return Outcome([timed], {**_content(found), "timing": content}, [], failed)


def parameters_by_sensors(request: Request) -> Outcome:
    """How the parameters grow with the sensors [tab:n_params_s, fig:n_param_s]."""
    found = counts_by_sensors()
    written = write_target(request, lambda: print_counts(found)) if request.target == "fig:n_param_s" else []
    return Outcome([_table("tab:n_params_s", found)], _content(found), written)


def counts() -> list[Count]:
    """All counts of tab:timeparams."""
    return [
        Count(model, data, parameters(model, DATA_SETS[data].shape), printed, SLIPS.get((model, data), ""))
        for model, row in COUNTS.items()
        for data, printed in row.items()
    ]


def counts_by_sensors() -> list[Count]:
    """All counts of tab:n_params_s."""
    return [
        Count("dfstrans", f"{n} sensors", parameters("dfstrans", Shape(n, 8000, 100)), printed, "")
        for n, printed in BY_SENSORS.items()
    ]


def parameters(model: str, shape: Shape) -> int:
    """The number of parameters of a network of the paper for recordings of this shape."""
    s, t, w = shape
    long = t > 500  # for the elevator, tab:hyp_benchmark has other kernels, and the printed count excludes max-pooling
    kinds: dict[str, Callable[[], nn.Module]] = {
        "dfstrans": lambda: DFSTrans(NetworkShape.paper(n_sensors=s, segment_length=w)),
        "inceptiontime": lambda: InceptionTime(
            InceptionTimeSettings(n_sensors=s, kernels=(49, 99, 199) if long else (9, 19, 39))
        ),
        "tapnet": lambda: TapNet(TapNetSettings(n_sensors=s, n_timepoints=t), torch.zeros(s)),
        "mlstm-fcn": lambda: MLSTMFCN(MLSTMFCNSettings(n_sensors=s)),
        "mh1dcnn-lstm": lambda: MH1DCNNLSTM(MH1DCNNLSTMSettings(n_sensors=s, segment_length=w, pool=not long)),
    }
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in kinds[model]().parameters())


def print_counts(found: Sequence[Count]) -> Figure:
    """Parameters by number of sensors [fig:n_param_s]."""
    sensors = [int(count.data.split()[0]) for count in found]
    figure = new_figure(2.6)
    axes = figure.subplots()
    axes.plot(sensors, [count.parameters / 1e6 for count in found], color=INK, linewidth=1.2, label="counted")
    axes.plot(sensors, [count.printed / 1e6 for count in found], "o", color=ANOMALOUS, markersize=5, label="printed")
    axes.set(xlabel="sensors", ylabel="parameters, millions", ylim=(0, None))
    axes.legend()
    return figure


def _table(label: str, found: Sequence[Count]) -> ResultTable:
    rows = tuple(
        (c.model, c.data, _spaced(c.parameters), _spaced(c.printed), "yes" if c.agrees else "NO", c.note) for c in found
    )
    return ResultTable(label, ("model", "data", "parameters", "printed", "equal", "note"), rows, (OF_THE_PAPER,))


def _content(found: Sequence[Count]) -> dict[str, Any]:
    return {"counts": [{**count._asdict(), "equal": count.agrees} for count in found]}


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
