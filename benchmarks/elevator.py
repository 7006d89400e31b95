"""Speed of the elevator's compiled kernel against plain NumPy, in one run: `python -m benchmarks.elevator`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks import elevator_reference
from dfstrans.lab.elevator.fleet import FleetMember, draw_conditions, draw_installation, draw_trip
from dfstrans.lab.elevator.journey import set_up
from dfstrans.lab.elevator.kernel import Setup
from dfstrans.lab.elevator.machine import add_calibration_errors, add_noise
from dfstrans.lab.elevator.settings import Stream, generator

SEED = 0
INSTALLATIONS = 8
FLOORS = (5, 8)
N_SAMPLES = 8000  # 20 s at 400 Hz, of 20 sensors
KERNEL_JOURNEYS = 16  # in a timed round
STRETCH = 40  # samples that the reference is timed on; the drive is still off, which favours the reference slightly


def main(arguments: list[str] | None = None) -> None:
    """Measure, then print a table or JSON; progress goes to stderr."""
    options = _parse(arguments)
    batches = options.batches[:1] if options.quick else options.batches
    rates = measure_rates(batches, 1 if options.quick else options.repeats)
    result = {
        "n_samples": N_SAMPLES,
        "n_sensors": 20,
        "stretch": STRETCH,
        "journeys_per_second": rates,
        "ratio": {name: rates["kernel"] / rate for name, rate in rates.items() if name.startswith("reference")},
    }
    print(json.dumps(result, indent=2) if options.json else _table(result))


def measure_rates(batches: list[int], repeats: int) -> dict[str, float]:
    """Journeys per second of processor time; the candidates alternate, so that other load affects all of them."""
    fleet = [draw_installation(SEED, number) for number in range(INSTALLATIONS)]
    setups = [_set_up(fleet, number) for number in range(max(KERNEL_JOURNEYS, *batches))]
    _progress("compiling")
    setups[0].run(1)  # not counted

    def kernel() -> None:
        for setup in setups[:KERNEL_JOURNEYS]:
            setup.run(N_SAMPLES)

    def recording() -> None:
        for number in range(KERNEL_JOURNEYS):
            noise = generator(SEED, Stream.NOISE, 0, number)
            add_noise(add_calibration_errors(_set_up(fleet, number).run(N_SAMPLES), noise), noise)

    candidates: dict[str, tuple[Callable[[], object], float]] = {
        "kernel": (kernel, KERNEL_JOURNEYS),
        "with set-up and noise": (recording, KERNEL_JOURNEYS),
    }
    for batch in batches:
        some = setups[:batch]
        run = lambda some=some: elevator_reference.simulate(some, STRETCH)  # noqa: E731
        candidates[f"reference, {batch} at once"] = (run, batch * STRETCH / N_SAMPLES)
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats):
        for name, (run, _) in candidates.items():
            _progress(f"round {repeat + 1} of {repeats}: {name}")
            seconds[name].append(_time(run))
    return {name: journeys / median(seconds[name]) for name, (_, journeys) in candidates.items()}


def _set_up(fleet: list[FleetMember], number: int) -> Setup:
    trip = draw_trip(SEED, (0, number), INSTALLATIONS, FLOORS)
    return set_up(fleet[trip.installation], trip, draw_conditions(SEED, (0, number), trip.passengers))


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"journeys of {result['n_samples']} samples × {result['n_sensors']} sensors, one core, without compilation; "
        f"the reference is extrapolated from {result['stretch']} samples",
        "",
        "| | journeys/s | kernel is faster |",
        "|---|---|---|",
    ]
    for name, rate in result["journeys_per_second"].items():
        ratio = f"{result['ratio'][name]:.0f} ×" if name in result["ratio"] else ""
        lines.append(f"| {name} | {rate:.3g} | {ratio} |")
    return "\n".join(lines)


def _time(run: Callable[[], object]) -> float:
    """Seconds of processor time, which other programs affect least."""
    start = time.process_time()
    run()
    return time.process_time() - start


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elevator", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds (5)")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[64, 256], metavar="N", help="journeys at once in NumPy (64 256)"
    )
    parser.add_argument("--quick", action="store_true", help="one round, the first batch only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if min(options.repeats, *options.batches) < 1:
        parser.error("expected at least 1 repeat and at least 1 journey at once")
    return options


if __name__ == "__main__":
    main()
