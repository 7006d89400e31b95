"""Interactive figures of a detector's work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from sklearn.metrics import precision_recall_curve

from dfstrans.data.episodes import Episode
from dfstrans.diagnosis.diagnosis import Diagnosis

NORMAL, ANOMALOUS, TRUTH, INK = "#4c78a8", "#d1495b", "rgba(237, 174, 73, 0.35)", "#1f2933"


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
    figure.add_vline(best_epoch, line_dash="dash", line_color=INK, annotation_text="kept")
    figure.update_xaxes(title="epoch")
    figure.update_yaxes(title="loss", secondary_y=False)
    figure.update_yaxes(title="PR-AUC", range=[0, 1.05], dtick=0.25, secondary_y=True, showgrid=False)
    return styled(figure, height=320, legend={"orientation": "h", "y": -0.25})


def diagnosis_figure(diagnosis: Diagnosis, episode: Episode, interval: float | None) -> go.Figure:
    """The recording beside how far it is from normal: signals, moments and (sensor, moment) cells."""
    sensors = diagnosis.sensors
    step = interval or 1
    time = np.arange(episode.values.shape[1]) * step
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        row_heights=[0.5, 0.18, 0.32],
        vertical_spacing=0.06,
        subplot_titles=(
            "recording (each sensor in its own lane)",
            "when? distance from normal (1 is usual)",
            "where and when?",
        ),
    )
    for lane, (name, values) in enumerate(zip(sensors, episode.values, strict=True)):
        low, high = np.nanmin(values), np.nanmax(values)
        scaled = ((values - low) / (high - low if high > low else 1) * 0.9 - lane).astype(np.float32)
        blamed = name == diagnosis.top_sensor
        line = {"color": ANOMALOUS if blamed else NORMAL, "width": 1.6 if blamed else 1}
        figure.add_scatter(x=time, y=scaled, line=line, name=name, row=1, col=1, hoverinfo="name+x")
    centre, width = diagnosis.segment_bounds.mean(axis=1), np.diff(diagnosis.segment_bounds, axis=1)[:, 0]
    colours = [ANOMALOUS if i == diagnosis.top_segment else NORMAL for i in range(len(centre))]
    figure.add_bar(x=centre, y=diagnosis.segment_deviation, width=width * 0.94, marker_color=colours, row=2, col=1)
    figure.add_heatmap(
        x=centre,
        y=list(sensors),
        z=np.log10(np.maximum(diagnosis.deviation, 1)).T,
        zmin=0,
        zmax=max(0.5, float(np.log10(diagnosis.deviation.max()))),
        colorscale="Reds",
        colorbar={
            "title": "distance<br>from normal",
            "len": 0.34,
            "y": 0.14,
            "tickvals": [0, np.log10(3), 1, np.log10(30), 2, 3],
            "ticktext": ["1", "3", "10", "30", "100", "1000"],
        },
        customdata=diagnosis.deviation.T,
        hovertemplate="%{y}, %{x}: %{customdata:.1f}<extra></extra>",
        row=3,
        col=1,
    )
    for fault in episode.faults or ():
        for row in (1, 2):
            figure.add_vrect(
                fault.start * step, fault.stop * step, fillcolor=TRUTH, line_width=0, layer="below", row=row, col=1
            )
    figure.update_yaxes(tickvals=[0.45 - lane for lane in range(len(sensors))], ticktext=list(sensors), row=1, col=1)
    figure.update_yaxes(autorange="reversed", dtick=1, tickfont={"size": 10}, row=3, col=1)
    figure.update_xaxes(title="time", row=3, col=1)
    return styled(figure, height=180 + 34 * len(sensors) + 220, showlegend=False)


def matrix_figure(attention: npt.NDArray[np.float64], names: tuple[str, ...] | None, title: str) -> go.Figure:
    """An attention matrix: rows attend to columns."""
    labels = list(names) if names is not None else list(range(len(attention)))
    figure = go.Figure(go.Heatmap(z=attention, x=labels, y=labels, colorscale="Blues", colorbar={"len": 0.8}))
    figure.update_yaxes(autorange="reversed")
    return styled(figure, height=420, title=title)


def styled(figure: go.Figure, **layout: Any) -> go.Figure:
    """The look that all figures share."""
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        margin={"l": 70, "r": 30, "t": 50, "b": 50},
        **layout,
    )
    return figure
