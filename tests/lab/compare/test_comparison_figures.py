"""The figures of a comparison, with long names of models and with the leakage baseline."""

from __future__ import annotations

import pytest

from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.figures import LEAKAGE_CAPTION, caption, comparison_figure, print_comparison
from dfstrans.report.print_figures import STYLE
from tests.lab.compare.made_up import made_up_run

LONG = ("boosting+seed=1+trees=200", "dfstrans+schedule=constant+epochs=2+mixup=0+sensor_dropout=0", "boosting")


def test_equal_figures_are_drawn_near_their_value() -> None:
    runs = tuple(made_up_run(fold=fold, f1=0.0, pr_auc=1.0) for fold in (0, 1))
    axes = comparison_figure(ComparisonResult(("boosting",), runs, folds=2)).layout
    for shown, value in ((axes.xaxis.range, 0.0), (axes.xaxis2.range, 1.0)):
        low, high = shown
        assert low < value < high
        assert high - low < 0.3


def test_long_names_do_not_squeeze_the_axes() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    runs = [made_up_run(model, fold, f1=f1, pr_auc=1.0) for model in LONG for fold, f1 in enumerate((0.5, 1.0))]
    with matplotlib.rc_context(STYLE):
        figure = print_comparison(ComparisonResult(LONG, tuple(runs), folds=2))
        figure.draw_without_rendering()
    width = figure.bbox.width
    f1, pr_auc = figure.axes
    (below,) = figure.texts
    assert "A point is one split" in below.get_text()
    assert min(below.get_window_extent().x0, width - below.get_window_extent().x1) > 0
    assert f1.get_xlim()[1] < 1.1  # the bar of mean 0.75 and deviation 0.35 ends at 1
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


def test_leakage_baseline_is_a_line_through_both_panels() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra paper: pip install 'dfstrans[paper]'")
    baseline = made_up_run("leakage", f1=0.4, pr_auc=0.3, roc_auc=0.7)
    result = ComparisonResult(("boosting", "leakage"), (made_up_run(), baseline), folds=1)
    assert caption(result).endswith(LEAKAGE_CAPTION)
    assert [(line.x0, line.x1) for line in comparison_figure(result).layout.shapes] == [(0.4, 0.4), (0.3, 0.3)]
    with matplotlib.rc_context(STYLE):
        figure = print_comparison(result)
    assert [[*axes.lines[-1].get_xdata()] for axes in figure.axes] == [[0.4, 0.4], [0.3, 0.3]]
    without = ComparisonResult(("boosting",), (made_up_run(),), folds=1)
    assert LEAKAGE_CAPTION not in caption(without)
    assert not comparison_figure(without).layout.shapes
