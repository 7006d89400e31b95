"""Speed of the elevator's compiled kernel against plain NumPy, in one run: `python -m benchmarks.elevator`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

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


def main() -> None:
    """Measure, then print a table; progress goes to stderr."""
    rates = measure_rates([64, 256], repeats=5)
    print(f"20 s of 20 sensors, one core, without compilation; the reference is extrapolated from {STRETCH} samples\n")
    print("| | journeys/s | kernel is faster |\n|---|---|---|")
    for name, rate in rates.items():
        print(f"| {name} | {rate:.3g} | {rates['kernel'] / rate:.0f} × |")


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


def _time(run: Callable[[], object]) -> float:
    """Seconds of processor time, which other programs affect least."""
    start = time.process_time()
    run()
    return time.process_time() - start


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
