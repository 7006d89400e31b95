"""Quality of the diagnoses of detected anomalies, with chance levels, rivals and controls.

    python -m benchmarks.diagnosis MODEL DATA --part test --out diagnosis_elevator.json

For each kind of fault: whether a faulty moment and a sensor that a mechanic would check are among the first three, how
many faulty sensors are found, how well cells are ranked (next to two rivals), whether the decision follows the
ranking, and how much the attention matters (AT_k with random and bottom controls).
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import progress
from dfstrans import Diagnoser, Episodes, load_episodes
from dfstrans.detectors.workflow import PARTS, part_of
from dfstrans.diagnosis.diagnosis import Diagnosis
from dfstrans.diagnosis.metrics import measure, rc_top_k
from dfstrans.diagnosis.metrics.assessment import SHOWN, assess
from dfstrans.diagnosis.trust import AttentionTrust, attention_trust_score
from dfstrans.files import atomic_write
from dfstrans.lab.compare.runs import circumstances

FRICTION = ("Iq", "Id", "Vq", "Vd", "FrictionCabin", "FrictionCw")
TELLING = {  # elevator sensors that reveal each kind of fault; at least one should be among the first
    "bump": ("Ax", "Ay", "Az"),
    "lubrication": FRICTION,
    "misalignment": FRICTION,
}
FIRST = 3
PERCENTAGES = (1.0, 2.0, 5.0, 10.0, 20.0)
LINES = (  # printed for each kind: level, metric, description
    ("segments", f"rc_top_{FIRST}", f"a faulty moment among the first {FIRST}"),
    ("sensors", f"rc_top_{FIRST}", f"a faulty sensor among the first {FIRST}"),
    ("sensors", "hit_rate@100%", "faulty sensors found, HitRate@100%"),
    ("sensors", "hit_rate@150%", "faulty sensors found, HitRate@150%"),
    ("cells", "auroc", "cell AUROC"),
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print a table or JSON, and write the JSON if requested."""
    options = _parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    reading = {name: getattr(options, name) for name in ("length", "stride") if getattr(options, name)}
    detector, episodes = Diagnoser.load(options.model), load_episodes(options.data, **reading)
    result = {
        "data": options.data.name,
        **reading,
        "part": options.part,
        "seed": detector.training_settings_.seed,
        **measure_diagnoses(detector, episodes, options.part, options.draws),
        **circumstances(),
    }
    if options.out is not None:
        with atomic_write(options.out) as temporary:
            temporary.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else table(result))


def measure_diagnoses(detector: Diagnoser, episodes: Episodes, part: Any, draws: int) -> dict[str, Any]:
    """All metrics of the detected anomalies of one part; the z-scores are fitted on the training part."""
    tested = part_of(detector, episodes, part)
    train = part_of(detector, episodes, "train") if part in PARTS else tested
    normal, anomalous = train[train.require_labels() == 0], tested[tested.require_labels() == 1]
    progress(f"diagnosing {len(anomalous)} anomalous episodes")
    diagnoses = list(detector.diagnose(anomalous, trust=True))
    progress("metrics, rivals and curves")
    found = assess(detector, detector.reference_, diagnoses, anomalous, normal)
    rows = [row for row, one in enumerate(diagnoses) if one.is_anomaly]
    kinds = [anomalous.fault_kinds()[row] for row in rows]
    progress(f"attention trust of {len(rows)} detected ones")
    trust = attention_trust_score(detector, anomalous[rows], PERCENTAGES, draws=draws)
    return {
        "anomalous": len(anomalous),
        **found,
        "telling_sensors": telling([diagnoses[row] for row in rows], kinds),
        "attention_trust": trust_by_kind(trust, kinds),
    }


def telling(diagnoses: list[Diagnosis], kinds: list[str]) -> dict[str, Any]:
    """For each kind with known revealing sensors: whether one is among the first, with chance and interval."""
    found = {}
    for kind in sorted(set(kinds) & set(TELLING)):
        mine = [one for one, own in zip(diagnoses, kinds, strict=True) if own == kind]
        masks = [np.isin(one.sensors, TELLING[kind]) for one in mine]
        if not masks[0].any():
            continue
        scores = [one.ranking.max(axis=0) for one in mine]
        result = measure(partial(rc_top_k, k=FIRST), [one.episode_id for one in mine], scores, masks)
        found[kind] = {"sensors": TELLING[kind], **result.to_dict()}
    return found


def trust_by_kind(trust: AttentionTrust, kinds: list[str]) -> dict[str, Any]:
    """AT_k of each kind of fault: means, and the values of each episode for figures; random is a mean over draws."""
    found = {}
    for kind in ["all", *sorted(set(kinds) - {""})]:
        rows = [row for row, own in enumerate(kinds) if kind in ("all", own)]
        own = AttentionTrust(trust.percentages, trust.top[rows], trust.bottom[rows], trust.random[rows])
        found[kind] = {
            "mean": own.mean(),
            "episodes": {
                "top": own.top.tolist(),
                "random": own.random.mean(axis=2).tolist(),
                "bottom": own.bottom.tolist(),
            },
        }
    return found


def table(result: dict[str, Any]) -> str:
    """Print the results as tables."""
    rankings = result["rankings"]
    lines = [
        f"{result['data']}, {result['part']} part: {result['detected']} of {result['anomalous']} anomalies detected; "
        f"attention: {result['support']}",
        "",
        "| kind | n | what | shown (95 % interval) | chance | " + " | ".join(list(rankings)[1:]) + " |",
        "|---|---|---|---|---|" + "---|" * (len(rankings) - 1),
    ]
    for level, metric, words in LINES:
        for kind, metrics in rankings[SHOWN].get(level, {}).items():
            others = [ranking[level][kind][metric]["value"] for name, ranking in rankings.items() if name != SHOWN]
            lines.append(_row(kind, words, metrics[metric], [_number(value) for value in others]))
    for kind, one in result["telling_sensors"].items():
        words = f"{', '.join(one['sensors'])}: one among the first {FIRST}"
        lines.append(_row(kind, words, one, [""] * (len(rankings) - 1)))
    lines += [f"without {name}: {why}" for name, why in result["missing"].items()]
    lines += ["", "| faithfulness of the ranking | shown | random |", "|---|---|---|"]
    random = result["curves"]["random_metrics"]
    lines += [f"| {name} | {value:.2f} | {random[name]:.2f} |" for name, value in result["curves"]["metrics"].items()]
    ks = [f"{k:g} %" for k in PERCENTAGES]
    lines += ["", "| AT_k | | " + " | ".join(ks) + " |", "|---|---|" + "---|" * len(ks)]
    for kind, one in result["attention_trust"].items():
        for which in ("top", "random", "bottom"):
            lines.append(f"| {kind} | {which} | " + " | ".join(f"{fall:.2f}" for fall in one["mean"][which]) + " |")
    return "\n".join(lines)


def _row(kind: str, words: str, result: dict[str, Any], others: list[str]) -> str:
    value = f"{_number(result['value'])} ({_number(result['low'])} to {_number(result['high'])})"
    return f"| {kind} | {result['n_episodes']} | {words} | {value} | {_number(result['chance'])} | " + (
        " | ".join(others) + " |"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.diagnosis", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--part", choices=("all", *PARTS), default="test")
    parser.add_argument("--length", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--draws", type=int, default=20, help="random draws of the attention's control (20)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, help="also write JSON to this file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
