"""The paper's tables of parameters and of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import nn

from dfstrans.lab.compare.comparison import ComparisonResult, ResultTable, mean_and_std
from dfstrans.lab.compare.runs import require_some
from dfstrans.lab.paper.datasets import DATA_SETS, Shape, effective, results_folder
from dfstrans.lab.paper.detection import comparison_for, finished_cells, for_data, overrides_for, require_data
from dfstrans.lab.paper.printed import BY_SENSORS, COUNTS, SECONDS, SLIPS
from dfstrans.lab.paper.request import NO_RESULT, Compute, Outcome, Request
from dfstrans.lab.rivals.inceptiontime import InceptionTime, InceptionTimeSettings
from dfstrans.lab.rivals.mh1dcnn_lstm import MH1DCNNLSTM, MH1DCNNLSTMSettings
from dfstrans.lab.rivals.mlstm_fcn import MLSTMFCN, MLSTMFCNSettings
from dfstrans.lab.rivals.tapnet import TapNet, TapNetSettings
from dfstrans.model.network import DFSTrans
from dfstrans.report.figures import ANOMALOUS, INK
from dfstrans.report.print_figures import new_figure, write_figures
from dfstrans.settings import NetworkShape

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Count(NamedTuple):
    """The parameters of a network, beside those that the paper prints."""

    model: str
    data: str
    parameters: int
    printed: int
    note: str  # where the two differ, why

    @property
    def agrees(self) -> bool:
        """Whether the two are equal to the unit."""
        return self.parameters == self.printed


def counts() -> list[Count]:
    """All of tab:timeparams."""
    return [
        Count(model, data, parameters(model, DATA_SETS[data].shape), printed, SLIPS.get((model, data), ""))
        for model, row in COUNTS.items()
        for data, printed in row.items()
    ]


def counts_by_sensors() -> list[Count]:
    """All of tab:n_params_s."""
    return [
        Count("dfstrans", f"{n} sensors", parameters("dfstrans", Shape(n, 8000, 100)), printed, "")
        for n, printed in BY_SENSORS.items()
    ]


def parameters(model: str, shape: Shape) -> int:
    """How many a network of the paper has for recordings of this shape."""
    s, t, w = shape
    long = t > 500  # tab:hyp_benchmark has other kernels for the elevator; its count is one without max-pooling
    with torch.device("meta"):
        kinds: dict[str, Callable[[], nn.Module]] = {
            "dfstrans": lambda: DFSTrans(NetworkShape.paper(n_sensors=s, segment_length=w)),
            "inceptiontime": lambda: InceptionTime(
                InceptionTimeSettings(n_sensors=s, kernels=(49, 99, 199) if long else (9, 19, 39))
            ),
            "tapnet": lambda: TapNet(TapNetSettings(n_sensors=s, n_timepoints=t), torch.zeros(s)),
            "mlstm-fcn": lambda: MLSTMFCN(MLSTMFCNSettings(n_sensors=s)),
            "mh1dcnn-lstm": lambda: MH1DCNNLSTM(MH1DCNNLSTMSettings(n_sensors=s, segment_length=w, pool=not long)),
        }
        network = kinds[model]()
    return sum(parameter.numel() for parameter in network.parameters())


class CountedNetwork(Protocol):
    """How many parameters a network has, and how many the paper prints."""

    @property
    def data(self) -> str:
        """The number of sensors, as text such as "10 sensors"."""

    @property
    def parameters(self) -> int:
        """Counted."""

    @property
    def printed(self) -> int:
        """In the paper."""


def write_counts_figure(folder: Path, counts: Sequence[CountedNetwork]) -> list[Path]:
    """Write the figure as PDF, SVG and PNG, named fig_n_param_s.*."""
    return write_figures(folder, {"fig_n_param_s": lambda: print_counts(counts)}, ("pdf", "svg", "png"))


def print_counts(counts: Sequence[CountedNetwork]) -> Figure:
    """The parameters grow in proportion to the sensors [fig:n_param_s]."""
    sensors = [int(count.data.split()[0]) for count in counts]
    figure = new_figure(2.6)
    axes = figure.subplots()
    axes.plot(sensors, [count.parameters / 1e6 for count in counts], color=INK, linewidth=1.2, label="counted")
    axes.plot(sensors, [count.printed / 1e6 for count in counts], "o", color=ANOMALOUS, markersize=5, label="printed")
    axes.set(xlabel="sensors", ylabel="parameters, millions", ylim=(0, None))
    axes.legend()
    return figure


TIMED_EPOCHS = 2
TIMED = ("dfstrans-paper", "inceptiontime", "tapnet", "mlstm-fcn", "mh1dcnn-lstm")


def time_and_parameters(request: Request, compute: Compute) -> Outcome:
    """The parameters of each network, and how long an epoch takes [tab:timeparams]."""
    found = counts()
    if request.counts_only:
        return Outcome([_count_table("tab:timeparams", found)], _count_content(found))
    request = replace(request, folds=1)
    seconds: dict[tuple[str, str], ComparisonResult] = {}
    failed: dict[str, str] = {}
    names = request.data_sets or tuple(DATA_SETS)
    found = [count for count in found if count.data in names]
    require_data(request, names)
    for name in names:
        protocol = effective(name, "paper-like")
        models = tuple(for_data(model, name, request.preset) for model in request.models or TIMED)
        folder = results_folder(request.out, name, protocol, request.preset)
        folder = folder.with_name(f"timing_{folder.name}")
        if not request.finished:
            failed |= compute(comparison_for(request, name, protocol, models, folder, TIMED_EPOCHS))
        cells = finished_cells(folder, models, 1, overrides_for(request, models, TIMED_EPOCHS))
        result = ComparisonResult(models, tuple(cells), 1)
        seconds |= {(_printed_name(model), name): result for model in models}
    if request.finished:
        require_some(request.out, [cell for result in seconds.values() for cell in result.cells])
    table = _count_table("tab:timeparams", found)
    rows = []
    for row, count in zip(table.rows, found, strict=True):
        measured = seconds.get((count.model, count.data))
        spreads = {} if measured is None else measured.spreads(_measured_name(count.model, measured))
        printed = f"{SECONDS[count.model][count.data]:.2f}"
        rows.append((*row[:-1], mean_and_std(spreads.get("seconds_per_epoch"), 2), printed, row[-1]))
    columns = (*table.columns[:-1], "s / epoch", "s / epoch printed", table.columns[-1])
    quick = NO_RESULT if request.quick else ""
    timed = replace(
        table, title=f"{quick}{table.title}", columns=columns, rows=tuple(rows), notes=(*table.notes, TIMING)
    )
    content = {
        f"{model}, {data}": result.to_dict()["models"].get(_measured_name(model, result))
        for (model, data), result in seconds.items()
    }
    return Outcome([timed], {**_count_content(found), "timing": content}, [], failed)


OF_THE_PAPER = "dfstrans here is the paper's network, which `dfstrans compare` calls dfstrans-paper."
TIMING = (
    "Seconds are the median over the epochs of one split, on the threads of this run, with the paper-like cutting "
    "(the elevator: whole journeys of the chosen preset); the hardware of the printed ones is not named."
)


def _printed_name(model: str) -> str:
    return model.removesuffix("-paper").removesuffix("-long")


def _measured_name(model: str, result: ComparisonResult) -> str:
    return next((name for name in result.models if _printed_name(name) == model), model)


def parameters_by_sensors(request: Request) -> Outcome:
    """How the parameters grow with the sensors [tab:n_params_s, fig:n_param_s]."""
    found = counts_by_sensors()
    written = []
    if request.target == "fig:n_param_s":
        written = write_counts_figure(request.out, found)
    return Outcome([_count_table("tab:n_params_s", found)], _count_content(found), written)


def _count_table(label: str, found: list[Count]) -> ResultTable:
    rows = tuple(
        (c.model, c.data, _spaced(c.parameters), _spaced(c.printed), "yes" if c.agrees else "NO", c.note) for c in found
    )
    return ResultTable(label, ("model", "data", "parameters", "printed", "equal", "note"), rows, (OF_THE_PAPER,))


def _count_content(found: list[Count]) -> dict[str, Any]:
    return {"counts": [{**count._asdict(), "equal": count.agrees} for count in found]}


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
