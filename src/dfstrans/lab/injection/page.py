"""A page on injected faults: how well each kind and strength is detected and diagnosed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dfstrans.errors import counted
from dfstrans.files import atomic_write
from dfstrans.lab.injection.settings import KINDS
from dfstrans.lab.injection.study import METRICS, ConditionResult, Metric, StudyResult
from dfstrans.report.figures import styled
from dfstrans.report.page import as_div, write_page
from dfstrans.training.evaluation import LEVEL, enough_to_tell, rank_sum_chance

RELIABLE = 0.8  # share of detected trials, at a strength and all greater ones


def verdict(result: StudyResult) -> list[str]:
    """One sentence each about the kinds found reliably, sometimes, or not at all."""
    reliably, sometimes, below_threshold, hidden, undecided = [], [], [], [], []
    for kind in dict.fromkeys(condition.kind for condition in result.conditions):
        conditions = sorted(
            (condition for condition in result.conditions if condition.kind == kind),
            key=lambda condition: condition.strength,
        )
        distinguished = [condition for condition in conditions if _distinguished(condition, result.normal_tested)]
        reliable = _reliable_from(conditions, distinguished)
        if not any(enough_to_tell(condition.episodes, result.normal_tested) for condition in conditions):
            undecided.append(kind)
        elif not distinguished:
            hidden.append(kind)
        elif not any(condition.detected for condition in distinguished):
            below_threshold.append(f"{kind} (at {_strengths(distinguished)})")
        elif reliable is None:
            sometimes.append(
                f"{kind} (at most {100 * max(condition.recall or 0.0 for condition in distinguished):.0f} %)"
            )
        else:
            reliably.append(f"{kind} from {KINDS[kind].shown(reliable)} on")
    said = {
        f"found in at least {100 * RELIABLE:.0f} % of the trials": reliably,
        "found sometimes, but not reliably at the strengths tested": sometimes,
        "ranked above normal episodes, but never above the threshold": below_threshold,
        "not distinguished from normal episodes at the strengths tested": hidden,
        "too few trials to tell": undecided,
    }
    return [f"{words}: {', '.join(kinds)}" for words, kinds in said.items() if kinds]


def _strengths(conditions: Sequence[ConditionResult]) -> str:
    """Strengths of one kind, with their unit."""
    *weaker, strongest = conditions
    return ", ".join([*(f"{condition.strength:g}" for condition in weaker), strongest.shown_strength])


def _reliable_from(conditions: Sequence[ConditionResult], distinguished: Sequence[ConditionResult]) -> float | None:
    """The smallest strength from which on a kind is found reliably; `conditions` weakest first."""
    least = None
    for condition in reversed(conditions):
        if condition not in distinguished or condition.recall is None or condition.recall < RELIABLE:
            break
        least = condition.strength
    return least


def _distinguished(condition: ConditionResult, normal: int) -> bool:
    """Whether faults rank above normal episodes, by the rank-sum test."""
    return condition.roc_auc is not None and rank_sum_chance(condition.roc_auc, condition.episodes, normal) <= LEVEL


COLUMNS = ("fault", "strength", "tried", "detected", "ROC-AUC", "PR-AUC", "sensor", "AC@3", "moment")


def result_rows(result: StudyResult) -> list[tuple[str, ...]]:
    """The cells of COLUMNS for each kind and strength; metrics of diagnosis have their chance level in brackets."""
    return [
        (
            condition.kind,
            condition.shown_strength,
            str(condition.episodes),
            *(_number(condition.value(name)) for name in ("recall", "roc_auc", "pr_auc")),
            *(_with_chance(condition.diagnosis.get(name)) for name in METRICS),
        )
        for condition in result.conditions
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _with_chance(metric: Metric | None) -> str:
    return "–" if metric is None or metric.value is None else f"{metric.value:.2f} ({_number(metric.chance)})"


PANELS = {
    "recall": "detected",
    "sensor_hit_rate": "right sensor, of those",
    "segment_hit": "right moment, of those",
}
SCALE = [[0.0, "#f8e3e0"], [0.5, "#f6eccf"], [1.0, "#7fbf9b"]]  # dark text is readable on all of it


def write_injection(folder: Path, result: StudyResult, content: dict[str, Any]) -> Path:
    """Write the results to report.json and report.html; `content` is the result with `recordings` and `command`."""
    with atomic_write(folder / "report.json") as temporary:
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")
    return write_page(
        folder / "report.html",
        "injection.html",
        package="dfstrans.lab",
        result=result,
        epochs=counted(result.epochs, "epoch"),
        recordings=content["recordings"],
        command=content["command"],
        rows=result_rows(result),
        chance_check=result.chance_check,
        verdict=verdict(result),
        figure=as_div(strength_figure(result)),
    )


def strength_figure(result: StudyResult) -> go.Figure:
    """Kinds of fault against strengths, weakest first: share detected, and of these, right sensor and moment.

    The first panel shows the strength, as each kind has its own unit; the others the number of detected faults.
    """
    kinds = list(dict.fromkeys(condition.kind for condition in result.conditions))
    of_kind = {kind: [condition for condition in result.conditions if condition.kind == kind] for kind in kinds}
    n_levels = max(len(conditions) for conditions in of_kind.values())
    names = [f"{kind}<br><span style='font-size:11px;color:#616e7c'>{of_kind[kind][0].unit}</span>" for kind in kinds]
    figure = make_subplots(
        cols=len(PANELS), shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=list(PANELS.values())
    )
    rows = [[*of_kind[kind], *[None] * (n_levels - len(of_kind[kind]))] for kind in kinds]
    for column, metric in enumerate(PANELS, start=1):
        figure.add_heatmap(
            x=list(range(1, n_levels + 1)),
            y=names,
            z=[[None if condition is None else condition.value(metric) for condition in row] for row in rows],
            coloraxis="coloraxis",
            xgap=3,
            ygap=3,
            hoverinfo="skip",
            row=1,
            col=column,
        )
        for name, row in zip(names, rows, strict=True):  # the text of a heat map has one line only
            for level, condition in enumerate(row, start=1):
                figure.add_annotation(
                    x=level, y=name, text=_label(condition, metric), showarrow=False, row=1, col=column
                )
    ends = ["weakest", *[""] * (n_levels - 2), "strongest"] if n_levels > 1 else [""]
    figure.update_xaxes(tickvals=list(range(1, n_levels + 1)), ticktext=ends, showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0.5, n_levels + 0.5])  # the same range for a panel without values
    figure.update_yaxes(type="category", categoryarray=names, range=[len(names) - 0.5, -0.5], showgrid=False)
    bar = {"title": "share", "thickness": 12, "tickformat": ".0%"}
    figure = styled(figure, height=130 + 52 * len(kinds), coloraxis={"colorscale": SCALE, "cmin": 0, "cmax": 1})
    figure.update_layout(coloraxis_colorbar=bar, margin_l=130, plot_bgcolor="#ffffff")
    return figure


def _label(condition: ConditionResult | None, metric: str) -> str:
    """A value, and below it the strength, or the number detected: 100 % of one means little."""
    if condition is None:
        return ""
    value = condition.value(metric)
    shown = "–" if value is None else f"{100 * value:.0f} %"
    below = f"at {condition.strength:g}" if metric == "recall" else f"of {condition.detected}"
    return f"<b>{shown}</b><br><span style='font-size:11px'>{below}</span>"
