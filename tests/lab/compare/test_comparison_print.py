"""The figure of a comparison for print, with names of models as long as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.runs import read_cell

KEPT = Path(__file__).parents[3] / "docs" / "results" / "elevator_small_no-overlap" / "boosting" / "fold_0.json"
LONG = ("boosting+seed=1+trees=200", "dfstrans+schedule=constant+epochs=2+mixup=0+sensor_dropout=0", "boosting")


def test_figures_that_are_all_the_same_are_drawn_near_their_value() -> None:
    from dfstrans.lab.compare.figures import comparison_figure

    cell = read_cell(KEPT)
    cells = [cell.model_copy(update={"fold": fold, "test": {**cell.test, "f1": 0.0, "pr_auc": 1.0}}) for fold in (0, 1)]
    axes = comparison_figure(ComparisonResult(("boosting",), tuple(cells), folds=2)).layout
    for shown, value in ((axes.xaxis.range, 0.0), (axes.xaxis2.range, 1.0)):
        low, high = shown
        assert low < value < high
        assert high - low < 0.3


def test_long_names_leave_the_axes_their_width_and_every_point_is_whole() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.lab.compare.figures import print_comparison
    from dfstrans.report.print_figures import STYLE

    cell = read_cell(KEPT)
    cells = [
        cell.model_copy(update={"model": model, "fold": fold, "test": {**cell.test, "f1": f1, "pr_auc": 1.0}})
        for model in LONG
        for fold, f1 in enumerate((0.5, 1.0))
    ]
    with matplotlib.rc_context(STYLE):
        figure = print_comparison(ComparisonResult(LONG, tuple(cells), folds=2))
        figure.draw_without_rendering()
    width = figure.bbox.width
    f1, pr_auc = figure.axes
    (caption,) = figure.texts
    assert "A point is one split" in caption.get_text()
    assert min(caption.get_window_extent().x0, width - caption.get_window_extent().x1) > 0
    assert f1.get_xlim()[1] < 1.1  # a mean of 0.75 and a deviation of 0.35 end at 1
    assert [label.get_text().replace("\n", "") for label in f1.get_yticklabels()] == [*LONG]
    assert min(label.get_window_extent().x0 for label in f1.get_yticklabels()) >= 0
    assert f1.title.get_window_extent().x1 < pr_auc.title.get_window_extent().x0
    for axes in (f1, pr_auc):
        box = axes.get_window_extent()
        assert box.width > 0.3 * width
        radius = 2.5 * figure.dpi / 72  # of a marker of 5 points
        for line in axes.lines:
            places = axes.transData.transform(line.get_xydata())[:, 0]
            assert all(box.x0 + radius < place < box.x1 - radius for place in places)


def test_what_is_leak_is_drawn_as_a_line_through_both_panels() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    from dfstrans.lab.compare.figures import LEAK, caption, comparison_figure, print_comparison
    from dfstrans.report.print_figures import STYLE

    cell = read_cell(KEPT)
    gauge = cell.model_copy(
        update={"model": "neighbours", "test": {**cell.test, "f1": 0.4, "pr_auc": 0.3, "roc_auc": 0.7}}
    )
    result = ComparisonResult(("boosting", "neighbours"), (cell, gauge), folds=1)
    assert caption(result).endswith(LEAK)
    assert [(line.x0, line.x1) for line in comparison_figure(result).layout.shapes] == [(0.4, 0.4), (0.3, 0.3)]
    with matplotlib.rc_context(STYLE):
        figure = print_comparison(result)
    assert [[*axes.lines[-1].get_xdata()] for axes in figure.axes] == [[0.4, 0.4], [0.3, 0.3]]
    without = ComparisonResult(("boosting",), (cell,), folds=1)
    assert LEAK not in caption(without)
    assert not comparison_figure(without).layout.shapes
