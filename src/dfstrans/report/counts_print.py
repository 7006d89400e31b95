"""Parameters by number of sensors, for print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dfstrans.report.figures import ANOMALOUS, INK
from dfstrans.report.printing import new_figure, write_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
