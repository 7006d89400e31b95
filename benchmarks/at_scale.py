"""What scoring and training cost on several processes: `python -m benchmarks.at_scale`.

Everything is measured in one run and in turns, by the clock on the wall, so the machine should be idle. The results go
to a file, and from there into the page *At scale*.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import torch
from distributed import Client

from benchmarks.measure import Case, measure_in_turns, new_parser, progress
from benchmarks.network import Shape
from benchmarks.prediction import random_detector
from dfstrans import Diagnoser, Episodes, save_episodes
from dfstrans.data.synthetic import planted_episodes
from dfstrans.errors import counted
from dfstrans.scale.fleet import connected, score_fleet
from dfstrans.scale.results import ResultsFolder
from dfstrans.scale.scoring import Scorer
from dfstrans.scale.sources import find_sources

RESULTS, PAGE = Path("results/scaling.jsonl"), Path("docs/explanation/at-scale.md")
START, END = "<!-- measured -->", "<!-- end of measured -->"
PER_FILE, SENSORS, POINTS = 100, 20, 500
SEGMENT = 50  # points
GROWTH = {"recordings": (100, 300, 1000), "sensors": (10, 20, 40, 80), "segments": (10, 20, 40, 80)}
AT_ONCE = 32  # recordings, where sensors or segments grow
TRAINED = (768, 256)  # normal and anomalous recordings for training
EPOCHS = 4  # the first one, which is slower, does not count
A_DAY, MACHINES, EVERY = 1_000_000, 10_000, 60  # recordings; machines that send one each so many seconds
Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the results and the page; progress goes to stderr."""
    options = _parse(arguments)
    if not options.only_page:
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            rows = [
                measure_scoring(Path(folder), options.files, options.rounds),
                measure_training(Path(folder), options.trainings),
                *measure_growth(options.rounds),
            ]
        options.results.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    rows = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    print(as_text(rows))
    if options.page is not None:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_results(text, rows), encoding="utf-8")


# ---- scoring --------------------------------------------------------------------------------------------------------


def measure_scoring(folder: Path, files: int, rounds: int) -> Row:
    """Recordings per second of bare prediction, and of scoring with one and with two workers, in turns."""
    detector = Diagnoser(epochs=1, segment_length=SEGMENT).fit(_recordings(60, 30, seed=1))
    detector.save(folder / "model")
    data = folder / "data"
    data.mkdir()
    for number in range(files):
        _write_parquet(_recordings(PER_FILE - 20, 20, seed=number), data / f"{number:03}.parquet")
    scorer = Scorer.load(folder / "model")
    sources = find_sources([str(data)], scorer.options, str(folder / "out"))

    def predict() -> float:
        began = time.perf_counter()
        for source in sources:
            detector.predict_proba(detector.load_episodes(source.address, need_labels=False))
        return time.perf_counter() - began

    def score(client: Client) -> float:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            results = ResultsFolder.of(f"{out}/results", scorer, resume=False)
            return score_fleet(sources, scorer, results, client, _silent).seconds

    with connected(None, "torch", workers=1) as one, connected(None, "torch", workers=2, most=2) as two:
        runs: dict[str, Callable[[], float]] = {
            "prediction": predict,
            "one_worker": partial(score, one),
            "two_workers": partial(score, two),
        }
        for name, run in runs.items():
            progress(f"scoring, warm-up: {name}")
            run()
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(rounds):
            progress(f"scoring: round {number + 1} of {rounds}")
            for name, run in runs.items():
                taken[name].append(run())
        worker_mb = max(two.run(_memory).values())
    rate = {name: round(PER_FILE * files / median(one), 1) for name, one in taken.items()}
    return {
        "what": "scoring",
        "files": files,
        "recordings_per_file": PER_FILE,
        "sensors": SENSORS,
        "points": POINTS,
        "rounds": rounds,
        "cores": os.cpu_count(),
        "recordings_per_second": rate,
        "dask_overhead": round(median(b / a for a, b in _pairs(taken, "prediction", "one_worker")) - 1, 3),
        "two_workers_over_one": round(median(a / b for a, b in _pairs(taken, "one_worker", "two_workers")), 3),
        "worker_megabytes": round(worker_mb),
    }


def _pairs(taken: dict[str, list[float]], first: str, second: str) -> Iterator[tuple[float, float]]:
    """The seconds of two runs in each round, which saw the same load of the machine."""
    return zip(taken[first], taken[second], strict=True)


@contextmanager
def _silent(_what: str, _total: int) -> Iterator[Callable[[int], None]]:
    yield lambda _n: None


def _memory() -> float:
    """The MB that a worker holds."""
    import psutil

    return float(psutil.Process().memory_info().rss / 1e6)


def _recordings(n_normal: int, n_anomalous: int, seed: int) -> Episodes:
    return planted_episodes(n_normal, n_anomalous, n_sensors=SENSORS, n_timepoints=POINTS, strength=2, seed=seed)


def _write_parquet(episodes: Episodes, path: Path) -> None:
    tables = [
        pd.DataFrame({"episode_id": one.id, "time": np.arange(POINTS) / 100}).assign(
            **dict(zip(episodes.sensors, one.values, strict=True))
        )
        for one in episodes
    ]
    pd.concat(tables).to_parquet(path, index=False)


# ---- training -------------------------------------------------------------------------------------------------------


def measure_training(folder: Path, trainings: int) -> Row:
    """Seconds of an epoch with one process and two threads, and with two processes and one thread each, in turns."""
    save_episodes(_recordings(*TRAINED, seed=0), folder / "training.h5")
    ways = {"one_process_two_threads": (1, 2), "two_processes_one_thread": (2, 1)}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(trainings):
        for name, (devices, threads) in ways.items():
            progress(f"training {number + 1} of {trainings}: {name}")
            out = folder / f"{name}{number}"
            words = [str(folder / "training.h5"), "--out", str(out), "--devices", str(devices), "--members", "network"]
            words += ["--epochs", str(EPOCHS), "--segment-length", str(SEGMENT), "--batch-size", "64"]
            subprocess.run(
                [sys.executable, "-m", "dfstrans", "train", *words, "--precision", "32"],
                env=os.environ | {"OMP_NUM_THREADS": str(threads)},
                check=True,
                capture_output=True,
            )
            with (out / "training_log.csv").open(encoding="utf-8") as file:
                taken[name].append(median(float(row["seconds"]) for row in [*csv.DictReader(file)][1:]))
    return {
        "what": "training",
        "recordings": sum(TRAINED),
        "sensors": SENSORS,
        "points": POINTS,
        "trainings": trainings,
        "cores": os.cpu_count(),
        "seconds_of_an_epoch": {name: round(median(seconds), 3) for name, seconds in taken.items()},
        "two_processes_over_one": round(median(a / b for a, b in _pairs(taken, *ways)), 3),
    }


# ---- growth ---------------------------------------------------------------------------------------------------------


def measure_growth(rounds: int, growth: dict[str, tuple[int, ...]] = GROWTH) -> list[Row]:
    """Milliseconds and MB of a prediction, as recordings, sensors or segments grow and the rest stays."""
    rows = []
    for axis, sizes in growth.items():
        for size in sizes:
            progress(f"growth of {axis}: {size}")
            n, sensors, segments = {
                "recordings": (size, SENSORS, 10),
                "sensors": (AT_ONCE, size, 10),
                "segments": (AT_ONCE, SENSORS, size),
            }[axis]
            case = Case(_prediction(2, 2, 2), partial(_prediction, n, sensors, segments))
            found = measure_in_turns({"": case}, rounds)[""]
            known = {"what": "growth", "axis": axis, "size": size, "recordings": n}
            rows.append(
                {**known, "milliseconds": round(1e3 * found.seconds, 2), "megabytes": round(found.megabytes, 1)}
            )
    return rows


def _prediction(n: int, n_sensors: int, n_segments: int) -> Callable[[], object]:
    shape = Shape(n_sensors, n_segments, SEGMENT)
    values = np.random.default_rng(0).random((n, n_sensors, n_segments * SEGMENT), dtype=np.float32)
    episodes = Episodes.from_arrays(values)
    detector, _ = random_detector(shape, Diagnoser(segment_length=SEGMENT).network_settings(episodes))
    return partial(detector.predict_proba, episodes)


# ---- the page -------------------------------------------------------------------------------------------------------


def with_results(page: str, rows: list[Row]) -> str:
    """Return the page with these results between its marks."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{as_text(rows)}\n{END}{after}"


def as_text(rows: list[Row]) -> str:
    """Return tables of the results, and what follows from them."""
    (scoring,) = (row for row in rows if row["what"] == "scoring")
    (training,) = (row for row in rows if row["what"] == "training")
    rate, epoch = scoring["recordings_per_second"], training["seconds_of_an_epoch"]
    lines = [
        f"{scoring['files']} Parquet files of {scoring['recordings_per_file']} recordings with {scoring['sensors']} "
        f"sensors and {scoring['points']} points, on {scoring['cores']} cores; training on {training['recordings']} "
        "such recordings:",
        "",
        "| | measured | wanted |",
        "|---|---|---|",
        f"| bare prediction, one thread | {rate['prediction']:.0f} recordings per second | |",
        f"| `score` with one worker | {rate['one_worker']:.0f} recordings per second | |",
        f"| `score` with two workers | {rate['two_workers']:.0f} recordings per second | |",
        f"| two workers ÷ one | {scoring['two_workers_over_one']:.2f} | ≥ 1.7 |",
        f"| Dask over bare prediction | {100 * scoring['dask_overhead']:.0f} % | ≤ 10 % |",
        f"| memory of a worker | {scoring['worker_megabytes']} MB | |",
        f"| epoch, one process with two threads | {epoch['one_process_two_threads']:.2f} s | |",
        f"| epoch, two processes with one thread each | {epoch['two_processes_one_thread']:.2f} s | |",
        f"| speed of two processes ÷ one | {training['two_processes_over_one']:.2f} | ≥ 0.8 |",
        "",
        "| what grows | size | ms per recording | MB |",
        "|---|---|---|---|",
    ]
    for row in rows:
        if row["what"] == "growth":
            each = row["milliseconds"] / row["recordings"]
            lines.append(f"| {row['axis']} | {row['size']} | {each:.2f} | {row['megabytes']:.0f} |")
    return "\n".join([*lines, "", *_on_paper(rate["one_worker"], scoring["worker_megabytes"])])


def _on_paper(rate: float, megabytes: float) -> list[str]:
    """Return what a day of a fleet needs, from the rate of one worker."""
    hours, workers = A_DAY / rate / 3600, math.ceil(MACHINES / EVERY / rate)
    return [
        f"- **{_spaced(A_DAY)} recordings a day** of this size take {hours:.1f} hours of one core, or {hours / 8:.1f} "
        f"hours of eight cores with {8 * megabytes / 1e3:.1f} GB of memory.",
        f"- **{_spaced(MACHINES)} machines** that send one such recording every {EVERY} seconds send "
        f"{MACHINES / EVERY:.0f} per second. That takes {counted(workers, 'core')} with "
        f"{workers * megabytes / 1e3:.1f} GB of memory.",
    ]


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("at_scale", __doc__, rounds=5)
    parser.add_argument("--files", type=int, default=24, help=f"files of {PER_FILE} recordings (24)")
    parser.add_argument("--trainings", type=int, default=2, help="trainings of each kind (2)")
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"file of results ({RESULTS})")
    parser.add_argument("--page", type=Path, default=PAGE, help=f"page to write them to ({PAGE})")
    parser.add_argument("--only-page", action="store_true", help="write the page from the file of results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
