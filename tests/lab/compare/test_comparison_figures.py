"""The figure of a comparison, with and without the leakage check."""

from __future__ import annotations

from pathlib import Path

from dfstrans.lab.compare.comparison import ComparisonResult
from dfstrans.lab.compare.figures import LEAKAGE_CAPTION, comparison_figure, write_comparison
from tests.lab.compare.made_up import made_up_run


def test_equal_metrics_are_drawn_near_their_value() -> None:
    runs = tuple(made_up_run(fold=fold, f1=0.0, pr_auc=1.0) for fold in (0, 1))
    axes = comparison_figure(ComparisonResult(("boosting",), runs, folds=2)).layout
    for (low, high), value in ((axes.xaxis.range, 1.0), (axes.xaxis2.range, 0.0)):
        assert low < value < high
        assert high - low < 0.3


def test_bars_end_at_possible_values() -> None:
    runs = tuple(made_up_run(fold=fold, pr_auc=value) for fold, value in enumerate((0.5, 1.0)))
    figure = comparison_figure(ComparisonResult(("boosting",), runs, folds=2))
    bar = figure.data[1]
    assert bar.x[0] + bar.error_x.array[0] == 1.0  # mean 0.75, deviation 0.35
    assert figure.layout.xaxis.range[1] < 1.1


def test_leakage_check_is_a_line_through_both_panels(tmp_path: Path) -> None:
    check = made_up_run("leakage", f1=0.4, pr_auc=0.3, roc_auc=0.7)
    result = ComparisonResult(("boosting", "leakage"), (made_up_run(), check), folds=1)
    assert [(line.x0, line.x1) for line in comparison_figure(result).layout.shapes] == [(0.3, 0.3), (0.4, 0.4)]
    without = ComparisonResult(("boosting",), (made_up_run(),), folds=1)
    assert not comparison_figure(without).layout.shapes
    pages = [write_comparison(tmp_path, one)[0].read_text() for one in (result, without)]
    assert [LEAKAGE_CAPTION in page for page in pages] == [True, False]
