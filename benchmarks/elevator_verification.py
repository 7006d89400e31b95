"""The values of "How it was verified" in docs/reference/elevator.md, computed with the functions of the tests.

    python -m benchmarks.elevator_verification --results results/elevator_verification.json

Takes about ten minutes; `--only modes` (may be repeated) measures one part and keeps the other results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import elevator_reference
from dfstrans.files import atomic_write
from dfstrans.lab.compare.runs import circumstances
from dfstrans.lab.elevator.fleet import draw_installation
from dfstrans.lab.elevator.journey import PHASES
from dfstrans.lab.elevator.machine import NOISE, SENSOR_NAMES
from dfstrans.lab.elevator.truth import NormalVariation, measure_normal_variation
from tests.lab.elevator import measurements as measured
from tests.lab.elevator.energy import electrical_balance, mechanical_balance
from tests.lab.elevator.journeys import FLOORS, MACHINE_FAULTS, N_INSTALLATIONS, N_SAMPLES, SEED, Trace, journey

KINDS = (None, *MACHINE_FAULTS)
PAIR_SEEDS = (0, 1, 2, 3, SEED)
Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="measure this part; may be repeated")
    parser.add_argument("--results", type=Path, help="JSON file to write; parts that are not measured are kept")
    given = parser.parse_args()
    kept = json.loads(given.results.read_text())["figures"] if given.results and given.results.exists() else {}
    here = circumstances()
    for name in given.only or PARTS:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        kept[name] = {**PARTS[name](), "commit": here["commit"]}
        content = {"seed": SEED, "figures": {part: kept[part] for part in PARTS if part in kept}, **here}
        if given.results:
            with atomic_write(given.results) as temporary:
                temporary.write_text(json.dumps(content, indent=2) + "\n")
    print(json.dumps(content["figures"], indent=2))


def kernel() -> Figures:
    """Compiled kernel against plain NumPy, for whole journeys."""
    setups = [journey(number, kind) for number, kind in enumerate((*KINDS, None, None))]
    expected = elevator_reference.simulate(setups, N_SAMPLES)
    worst = max(np.abs((s.run(N_SAMPLES) - e) / NOISE).max() for s, e in zip(setups, expected, strict=True))
    return {"journeys": len(setups), "largest_difference_in_noise": float(worst)}


def energy() -> Figures:
    """Error of the energy balance, in J."""
    mechanical, electrical, turnover = [], [], []
    for number in range(60):
        setup = journey(number, KINDS[number % len(KINDS)])
        trace = Trace(setup)
        balance = mechanical_balance(setup, trace)
        mechanical.append(balance.worst)
        turnover.append(balance.turnover)
        electrical.append(electrical_balance(setup, trace).worst)
    return {
        "journeys": len(mechanical),
        "largest_mechanical_J": max(mechanical),
        "largest_electrical_J": max(electrical),
        "median_turnover_J": float(np.median(turnover)),
    }


def cruise() -> Figures:
    """Torque and voltages at constant speed against the steady equations."""
    setups = [journey(number, kind, calm=True) for number in (0, 1, 2) for kind in KINDS]
    return {
        "journeys": len(setups),
        "max_torque_error_Nm": max(abs(measured.torque_error(setup)) for setup in setups),
        "max_voltage_error_V": max(abs(error) for setup in setups for error in measured.voltage_errors(setup)),
    }


def step() -> Figures:
    """Error of the step size against a sixteenth of it, and its effect on the labels."""
    errors = np.array([measured.step_errors(journey(number, calm=True), (1,))[1] for number in (0, 3)]).max(axis=0)
    by_sensor = dict(zip(SENSOR_NAMES, errors.tolist(), strict=True))
    differing, cells = measured.labels_that_depend_on_the_step(normal_variation(SEED), 24)
    return {
        "rms_in_noise": {
            "Alpha": by_sensor.pop("Alpha"),
            "Phi": by_sensor.pop("Phi"),
            "others": max(by_sensor.values()),
        },
        "labels_that_differ": differing,
        "labels": cells,
    }


def stillness() -> Figures:
    """Largest change of any sensor before power-on."""
    worst = 0.0
    for number in range(8):
        setup = journey(number, KINDS[number % len(KINDS)])
        still = setup.run(int(setup.schedule.on * 400))
        worst = max(worst, float(np.abs((still - still[0]) / NOISE).max()))
    return {"journeys": 8, "largest_movement_in_noise": worst}


def modes() -> Figures:
    """Frequencies of the modes, and their damping with the drive active."""
    found: Figures = {}
    moments = [(number, share) for number in range(40) for share in (0.0, 0.5, 1.0)]
    for name, states in (("vertical", measured.VERTICAL), ("sideways", measured.LATERAL)):
        frequencies = np.array([measured.modes(*moment, states)[:, 0] for moment in moments])
        found[f"{name}_Hz"] = np.stack([frequencies.min(axis=0), frequencies.max(axis=0)], axis=1).round(2).tolist()
    return {"linearisations": len(moments), **found}


def stability() -> Figures:
    """The smallest damping with the drive active, and the fastest growth, in 1/s."""
    moments = [(number, share) for number in range(200) for share in (0.0, 0.5, 1.0)]
    least, at, growth = 1.0, 0.0, -np.inf
    for moment in moments:
        rates = measured.closed_loop(*moment)
        growth = max(growth, float(rates.real.max()))
        swinging = rates[np.abs(rates.imag) > 0.1]
        damping = -swinging.real / np.abs(swinging)
        if damping.min() < least:
            least, at = float(damping.min()), float(np.abs(swinging[damping.argmin()]) / (2 * np.pi))
    return {"linearisations": len(moments), "least_damping": least, "at_Hz": at, "fastest_growth": growth}


def arrival() -> Figures:
    """Levelling and rollback, in mm."""
    error, creep = 1e3 * np.array([measured.levelling(number) for number in range(200)]).T
    back = 1e3 * np.array([measured.rollback(number) for number in range(200)])
    return {
        "journeys": 200,
        "levelling_mm": {"median": float(np.median(np.abs(error))), "largest": float(np.abs(error).max())},
        "levelling_without_creep_mm": {"largest": float(np.abs(error - creep).max())},
        "rollback_mm": {"median": float(np.median(back)), "largest": float(back.max())},
    }


def limits() -> Figures:
    """How close the drive comes to its limits, and ride quality in mg."""
    voltage, current, ropes, ride = zip(*map(measured.limits, range(100)), strict=True)
    return {
        "journeys": 100,
        "largest_current_A": float(max(current)),
        "max_voltage_share": float(max(voltage)),
        "largest_rope_ratio": float(max(ropes)),
        "median_ride_mg": dict(zip(("Ax", "Ay", "Az"), (np.median(ride, axis=0) / 9.81e-3).tolist(), strict=True)),
    }


def scale() -> Figures:
    """The scale of relevance at cruise, seed 0."""
    cruising = normal_variation(0).scale[PHASES.index("cruising")]
    return {"seed": 0, **dict(zip(SENSOR_NAMES, cruising.tolist(), strict=True))}


def normal_pairs() -> Figures:
    """The share of cells of fresh normal pairs that are affected and strongly affected, for each seed."""
    found = {seed: measured.pairs(normal_variation(seed), (20, 21), 150, seed) for seed in PAIR_SEEDS}
    return {
        "seeds": PAIR_SEEDS,
        "pairs": 150,
        "affected": [float((cells >= 1).mean()) for cells in found.values()],
        "strong": [float((cells >= 2).mean()) for cells in found.values()],
    }


def faults() -> Figures:
    """Where bumps are visible and where not, and in which phases lost lubrication is."""
    bumps = [measured.relevance(normal_variation(SEED), number, "bump")[0] for number in range(60)]
    lateral = [SENSOR_NAMES.index("Ax"), SENSOR_NAMES.index("Ay")]
    by_phase: dict[str, list[float]] = {name: [] for name in PHASES}
    for number in range(48):
        cells, during = measured.relevance(normal_variation(SEED), number, "lubrication")
        for segment, phase in enumerate(during):
            by_phase[PHASES[phase]].append(cells[segment, SENSOR_NAMES.index("FrictionCabin")])
    return {
        "bumps": len(bumps),
        "bumps_that_show_in_Ax_or_Ay": float(np.mean([(cells[:, lateral] >= 1).any() for cells in bumps])),
        "largest_relevance_of_a_bump_in_Iq": float(max(cells[:, SENSOR_NAMES.index("Iq")].max() for cells in bumps)),
        "lubrication_journeys": 48,
        "relevance_of_FrictionCabin": {name: float(np.mean(values)) for name, values in by_phase.items()},
    }


@cache
def normal_variation(seed: int) -> NormalVariation:
    return measure_normal_variation(seed, partial(draw_installation, seed), N_INSTALLATIONS, FLOORS, N_SAMPLES)


PARTS: dict[str, Callable[[], Figures]] = {
    part.__name__: part
    for part in (
        kernel, energy, cruise, step, stillness, modes, stability, arrival, limits, scale, normal_pairs, faults,
    )
}  # fmt: skip


if __name__ == "__main__":
    main()
