"""The model card: what a saved model is, how well it performs, and its limits."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dfstrans.errors import list_few
from dfstrans.model.novelty import FEWEST_RECORDINGS, NOT_SEEN, USUAL_SHARE
from dfstrans.training.evaluation import check_against_chance, learned_little

CANNOT_TELL = f"that requires trees, and at least {FEWEST_RECORDINGS} recordings to train on"
METRICS = {
    "episodes": "episodes",
    "anomalous": "of them anomalous",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "pr_auc": "PR-AUC",
    "roc_auc": "ROC-AUC",
    "false_alarms_per_100_normal": "false alarms per 100 normal episodes",
    "brier": "Brier score",
}


def model_card(record: dict[str, Any]) -> str:
    """Return the model card as Markdown, from the content of model.json."""
    data, threshold, training = record["data"], record["threshold"], record["training"]
    return f"""# Model card

A {record["estimator"]} detector, saved {record["created"]} with dfstrans {record["versions"]["dfstrans"]}.

## Input and output
{takes_and_gives(record)}

## Performance
{_figures_table(record["metrics"])}

{_chance_check(record["metrics"])}
{_learning(record.get("loss_beside_guessing"))}
{_committee(record.get("committee"))}- Threshold: rule `{threshold["rule"]}`. {threshold["note"]}
- Probabilities: {record["calibration"]["note"]}
- Trained on {data["train_episodes"]} episodes ({data["train_anomalous"]} anomalous), seed {training["seed"]}.
- Best epoch {record["best_epoch"]}, selected on {data["validation_episodes"]} validation episodes
  ({data["validation_anomalous"]} anomalous).
- The epoch, the temperature and the threshold were chosen on the validation part, so its metrics are optimistic.
{_learned_on_both(record.get("members"))}{_export(record.get("export"))}
## Limits
- Sensors are matched by name, unnamed ones by position.
- The model was not tested on machines, sensors or sampling rates other than those of training.
- A missing value is replaced by the last known one; a sensor without any value is set to its training mean.
- {record["parameters"]:,} parameters; settings, versions and data fingerprints are in `model.json`.
"""


def takes_and_gives(record: dict[str, Any]) -> str:
    """Describe the input and the output of a model."""
    data, threshold = record["data"], record["threshold"]
    named = zip(record["sensors"], record["units"], strict=True)
    sensors = ", ".join(f"{name} [{unit}]" if unit else name for name, unit in named)
    known = [_machines(record.get("machines", [])), _known_cases(record.get("known_cases", {}))]
    known.append(_novelty(record.get("remembered")))
    details = "".join([*known, _reading(record.get("reading", {}))])
    return f"""Episodes of {len(record["sensors"])} sensors{_cut(record["network"])}.
The model was trained on episodes of {_range(data["shortest"], data["longest"])} points{_interval(data)}.
It predicts the probability that an episode is anomalous, and calls it anomalous at {threshold["value"]:.4g} or above.

Sensors: {sensors}
{details}""".rstrip()


def _range(shortest: int, longest: int) -> str:
    return str(longest) if shortest == longest else f"{shortest} to {longest}"


def _learned_on_both(members: str | None) -> str:
    if members not in ("committee", "trees"):
        return ""
    return "- Then the trees were trained again, on the training and the validation part.\n"


def _committee(committee: dict[str, Any] | None) -> str:
    if committee is None:
        return ""
    found = f"- Network and trees decide together: {committee['note']}."
    for part, members in committee.get("pr_auc", {}).items():
        known = [f"{name} {value:.4g}" for name, value in members.items() if value is not None]
        found += f"\n  PR-AUC of each alone, {part} part: {', '.join(known)}." if known else ""
    return f"{found}\n"


def _chance_check(metrics: dict[str, dict[str, Any]]) -> str:
    """State whether the model is better than guessing, in bold if it is not."""
    found = check_against_chance(metrics)
    sentence = f"{found.sentence[0].upper()}{found.sentence[1:]}."
    return sentence if found.better_than_guessing else f"**{sentence}**"


def _learning(loss: float | None) -> str:
    """Warn in bold if the network has learned little."""
    if loss is None or not learned_little(loss):
        return ""
    return f"""
**The network has learned little: its training loss ended at {100 * loss:.0f} % of the loss of guessing.
More epochs may help.**
"""


def _cut(network: dict[str, Any]) -> str:
    return f", cut into segments of {network['segment_length']} points" if "segment_length" in network else ""


def _interval(data: dict[str, Any]) -> str:
    if data["interval"] is None:
        return ""
    return f", one every {data['interval']:g} {data.get('time_unit', '')}".rstrip()


def _machines(recordings: list[tuple[str, int]]) -> str:
    if not recordings:
        return ""
    named = list_few([f"{name} ({n})" for name, n in recordings], limit=20)
    return f"\nMachines with a baseline of their own, and its number of recordings: {named}.\n"


def _novelty(remembered: int | None) -> str:
    if remembered is None:
        return f"\nWhether a recording is unlike anything in training is unknown: {CANNOT_TELL}.\n"
    return (
        f"\nA recording that is unlike the {remembered} of training counts as “{NOT_SEEN}”; of ordinary recordings, "
        f"about {100 * (1 - USUAL_SHARE):.0f} % or fewer do.\n"
    )


def _known_cases(kinds: dict[str, str]) -> str:
    if not kinds:
        return ""
    counts = ", ".join(f"{kind} ({n})" for kind, n in Counter(kinds.values()).most_common())
    return f"\nA diagnosis names the most similar of these known faults: {counts}.\n"


def _reading(recipe: dict[str, Any]) -> str:
    if not recipe:
        return ""
    options = ", ".join(f"{name} = {value}" for name, value in recipe.items())
    return f"\nRecordings are read with: {options}.\n"


def _export(export: dict[str, Any] | None) -> str:
    if export is None:
        return ""
    source = "generated, not real recordings" if export["generated"] else "given recordings"
    return f"""
## Exported
As ONNX, {export["created"]} with dfstrans {export["dfstrans_version"]}.
Compared with torch on {export["episodes"]} episodes ({source}), a logit differs by at most
{export["logit_difference"]:.2g} ({export["tolerance"]:g} is allowed) and an attention weight by at most
{export["attention_difference"]:.2g} ({export["attention_tolerance"]:g}).
"""


def _figures_table(metrics: dict[str, dict[str, float | None]]) -> str:
    if not metrics:
        return "No metrics were recorded."
    parts = list(metrics)
    lines = ["| | " + " | ".join(parts) + " |", "|---" * (len(parts) + 1) + "|"]
    for key, name in METRICS.items():
        cells = [metrics[part].get(key) for part in parts]
        lines.append(f"| {name} | " + " | ".join("–" if cell is None else f"{cell:.4g}" for cell in cells) + " |")
    return "\n".join(lines)
