"""Interactive figures of a detector's work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from sklearn.metrics import precision_recall_curve

NORMAL, ANOMALOUS, INK = "#4c78a8", "#d1495b", "#1f2933"


def probability_figure(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int8], ids: npt.NDArray[np.str_], threshold: float
) -> go.Figure:
    """Each episode's anomaly probability, by true class, with the threshold."""
    figure = go.Figure()
    spread = np.random.default_rng(0).uniform(-0.3, 0.3, len(labels))
    for label, name, colour in ((0, "normal", NORMAL), (1, "anomalous", ANOMALOUS)):
        rows = labels == label
        figure.add_scatter(
            x=probabilities[rows],
            y=label + spread[rows],
            mode="markers",
            name=name,
            marker={"color": colour, "size": 8, "opacity": 0.7},
            text=ids[rows],
            hovertemplate="%{text}<br>probability %{x:.3f}<extra></extra>",
        )
    figure.add_vline(threshold, line_dash="dash", line_color=INK, annotation_text=f"threshold {threshold:.2f}")
    figure.update_yaxes(tickvals=[0, 1], ticktext=["normal", "anomalous"], range=[-0.6, 1.6])
    figure.update_xaxes(title="anomaly probability", range=[-0.03, 1.03])
    return styled(figure, height=260, showlegend=False)


def precision_recall_figure(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int8], point: tuple[float, float]
) -> go.Figure:
    """Precision against recall, with the chance level and the point that the threshold gives."""
    precision, recall, _ = precision_recall_curve(labels, probabilities)
    figure = go.Figure()
    figure.add_scatter(x=recall, y=precision, mode="lines", line={"color": ANOMALOUS, "shape": "hv"}, name="detector")
    figure.add_hline(float(labels.mean()), line_dash="dot", line_color="#9aa5b1", annotation_text="chance")
    figure.add_scatter(x=[point[0]], y=[point[1]], mode="markers", marker={"size": 11, "color": INK}, name="threshold")
    figure.update_xaxes(title="recall", range=[-0.02, 1.02])
    figure.update_yaxes(title="precision", range=[-0.02, 1.05])
    return styled(figure, height=320, showlegend=False)


def training_figure(log: list[dict[str, float]], best_epoch: int) -> go.Figure:
    """Loss and validation figures over the epochs, with the epoch whose weights were kept."""
    epochs = [row["epoch"] for row in log]
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    for key, name, colour, second in (
        ("loss", "training loss", NORMAL, False),
        ("validation_loss", "validation loss", ANOMALOUS, False),
        ("validation_pr_auc", "validation PR-AUC", "#66a182", True),
    ):
        trace = go.Scatter(x=epochs, y=[row[key] for row in log], name=name, line={"color": colour})
        figure.add_trace(trace, secondary_y=second)
    side = "left" if 2 * best_epoch > epochs[0] + epochs[-1] else "right"  # where there is room for the word
    figure.add_vline(
        best_epoch, line_dash="dash", line_color=INK, annotation_text="kept", annotation_position=f"top {side}"
    )
    figure.update_xaxes(title="epoch")
    figure.update_yaxes(title="loss", secondary_y=False)
    figure.update_yaxes(title="PR-AUC", range=[0, 1.05], dtick=0.25, secondary_y=True, showgrid=False)
    return styled(figure, height=320, legend={"orientation": "h", "y": -0.25})


def styled(figure: go.Figure, **layout: Any) -> go.Figure:
    """The look that all figures share."""
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        margin={"l": 70, "r": 30, "t": 50, "b": 50},
        **layout,
    )
    return figure
