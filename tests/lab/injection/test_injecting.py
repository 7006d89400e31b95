from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes
from dfstrans.data.writers import save_episodes
from dfstrans.errors import DfstransError
from dfstrans.lab.elevator.journey_file import read_recipes
from dfstrans.lab.injection.faults import TWINS, NormalSensors, draw_fault, with_fault
from dfstrans.lab.injection.injecting import inject_each, inject_faults, normal_episodes, save_injection
from dfstrans.lab.injection.settings import KINDS, InjectionSettings
from tests.lab.injection.machines import SENSORS, machine

MACHINE = machine()
NORMAL = NormalSensors.measure(MACHINE)


def of(kinds: str, *strength: str, **others: float) -> InjectionSettings:
    return InjectionSettings.of(kinds, strength, **others)


@settings(max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    level=st.integers(0, 2),
    row=st.integers(0, len(MACHINE) - 1),
    duration=st.floats(0.02, 0.5),
    seed=st.integers(0, 1000),
)
def test_no_bit_changes_outside_the_window_and_sensor(
    kind: str, level: int, row: int, duration: float, seed: int
) -> None:
    (episode,) = MACHINE[row]
    strength = KINDS[kind].strengths[level]
    fault = draw_fault(row, episode.values, kind, strength, NORMAL, MACHINE, duration=duration, seed=(seed, TWINS))
    if fault is None:  # a long lag with a long window, or nothing to change: then there is no fault
        return
    before = episode.values.copy()
    after = with_fault(episode.values, fault, NORMAL, MACHINE)
    assert episode.values.tobytes() == before.tobytes()
    outside = np.ones(before.shape, dtype=bool)
    outside[fault.sensor, fault.start : fault.stop] = False
    assert after[outside].tobytes() == before[outside].tobytes()
    assert np.nanmax(np.abs(after - before)[~outside]) >= 0.05 * NORMAL.deviation[fault.sensor]
    assert after.dtype == np.float32
    if NORMAL.whole[fault.sensor]:
        present = after[fault.sensor][~np.isnan(after[fault.sensor])]
        assert (present == np.rint(present)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_stronger_fault_changes_more(kind: str) -> None:
    changes = []
    strengths = (3, 6, 10) if kind == "lag" else KINDS[kind].strengths  # the machine repeats itself after 20 points
    for strength in strengths:
        injected = inject_each(MACHINE, [(kind, strength)], NORMAL, of(kind, seed=3)).in_memory()
        source = MACHINE[[MACHINE.ids.tolist().index(name.split("+")[0]) for name in injected.ids]]
        difference = np.nan_to_num(np.asarray(injected.values) - np.asarray(source.values))
        changes.append(float(np.abs(difference / np.maximum(NORMAL.deviation, 1e-9)[:, None]).sum()))
    assert changes[0] < changes[1] < changes[2]


def test_the_truth_is_exact() -> None:
    injection = inject_faults(MACHINE, of("spike,level-shift,drift,gain,noise-burst"))
    injected = injection.in_memory()
    source = dict(zip(MACHINE.ids.tolist(), np.asarray(MACHINE.values), strict=True))
    assert injected.labels is not None
    assert injected.faults is not None
    for row, name in enumerate(injected.ids.tolist()):
        before, after = source[name.split("+")[0]], injected.values[row]
        differing = (before != after) & ~(np.isnan(before) & np.isnan(after))
        if injected.labels[row] == 0:
            assert injected.faults[row] == ()
            assert not differing.any()
            continue
        (fault,) = injected.faults[row]
        assert name.endswith(f"+{fault.kind}@{fault.severity:g}")
        sensor = injected.sensors.index(fault.sensors[0])
        assert np.flatnonzero(differing.any(axis=1)).tolist() == [sensor]
        where = np.flatnonzero(differing[sensor])
        assert fault.start <= where.min() <= where.max() < fault.stop
        present = ~np.isnan(before[sensor, fault.start : fault.stop])
        if fault.kind in ("spike", "level-shift") and not NORMAL.whole[sensor]:
            change = (after - before)[sensor, fault.start : fault.stop][present]
            amount = (fault.severity or 0) * NORMAL.deviation[sensor]
            np.testing.assert_allclose(np.abs(change), amount, rtol=1e-4)


def test_every_episode_is_kept_and_kinds_alternate_in_its_copies() -> None:
    injection = inject_faults(machine(60), of("spike,drift,stuck", "spike=1,3", "drift=1", "stuck=10", share=0.6))
    injected = injection.described()
    assert sorted(injection.conditions.values()) == [22, 22, 23, 23]
    assert (len(injected), injected.n_anomalous) == (150, 90)
    assert len(set(injected.ids.tolist())) == 150


def test_grouped_split_keeps_an_episode_and_its_copies_together() -> None:
    injected = inject_faults(machine(40), of("spike,drift,stuck", share=0.7)).described()
    assert injected.groups is not None
    assert all(name.split("+")[0] == group for name, group in zip(injected.ids, injected.groups, strict=True))
    parts = [set(part.groups.tolist()) for part in injected.split(0, by_group=True) if part.groups is not None]
    assert len(parts) == 3
    assert sum(map(len, parts)) == len(set.union(*parts)) == 40


def test_own_groups_are_kept_for_grouped_splits() -> None:
    injected = inject_faults(machine(12, groups=["a", "b", "c"] * 4), of("drift"), by_group=True).described()
    assert injected.groups is not None
    assert set(injected.groups.tolist()) == {"a", "b", "c"}
    with pytest.raises(DfstransError, match="with a group"):
        inject_faults(machine(12), of("drift"), by_group=True)


def test_more_copies_than_kinds_and_strengths_are_refused() -> None:
    with pytest.raises(DfstransError, match=r"at most 3 faulty copies of an episode.*share of at most 0.75"):
        inject_faults(MACHINE, of("drift", share=0.8))


def test_set_depends_on_the_seed_only() -> None:
    first, again, other = (inject_faults(MACHINE, InjectionSettings(seed=seed)).in_memory() for seed in (1, 1, 2))
    assert first.fingerprint() == again.fingerprint()
    assert first.faults == again.faults
    assert first.fingerprint() != other.fingerprint()


@pytest.mark.parametrize("kind", KINDS)
def test_strengths_of_a_kind_are_tried_at_the_same_place(kind: str) -> None:
    moving = machine(30).select_sensors(["speed", "current"])  # almost wherever a fault is, it shows at once
    low, high = KINDS[kind].strengths[0], KINDS[kind].largest or KINDS[kind].strengths[-1]
    injection = inject_each(moving, [(kind, low), (kind, high)], NormalSensors.measure(moving), InjectionSettings())
    assert len(injection) == 2 * len(moving)
    pairs = [
        (weak, strong)
        for weak, strong in zip(injection.faults[: len(moving)], injection.faults[len(moving) :], strict=True)
        if weak is not None and strong is not None and weak.seed == strong.seed  # neither was redrawn
    ]
    assert len(pairs) > 0.8 * len(moving)
    for weak, strong in pairs:
        assert (weak.sensor, weak.sign, weak.donor) == (strong.sensor, strong.sign, strong.donor)
        if kind == "lag":  # begins when there is something to show, so a longer one a little later
            assert 0 <= strong.start - weak.start <= high - low
        else:
            assert strong.start <= weak.start < weak.stop <= strong.stop
            assert kind in ("stuck", "dropout") or strong.start == weak.start


def test_trials_do_not_repeat_positions_seen_in_training() -> None:
    many = machine(60)
    settings = of("level-shift,noise-burst", share=0.6)
    injection = inject_faults(many, settings)
    trained = {(row, fault.kind): fault for row, fault in zip(injection.rows, injection.faults, strict=True) if fault}
    trials = inject_each(many, settings.conditions[:1] + settings.conditions[3:4], NORMAL, settings)
    pairs = [
        (trained[row, fault.kind], fault)
        for row, fault in zip(trials.rows, trials.faults, strict=True)
        if fault is not None and (row, fault.kind) in trained
    ]
    assert len(pairs) > 50
    same = sum((one.sensor, one.start) == (other.sensor, other.start) for one, other in pairs)
    assert same < len(pairs) / 10  # by chance one in 200
    assert not {one.seed for one, _ in pairs} & {other.seed for _, other in pairs}


def test_movement_is_borrowed_within_the_same_group_only() -> None:
    grouped = machine(12, groups=["a", "b", "c"] * 4)
    injection = inject_each(grouped, [("coupling-loss", 100)], NORMAL, InjectionSettings())
    assert grouped.groups is not None
    assert len(injection) > 6
    for row, fault in zip(injection.rows, injection.faults, strict=True):
        assert fault is not None
        assert fault.donor != row
        assert grouped.groups[fault.donor] == grouped.groups[row]


def test_injecting_from_a_file_equals_injecting_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Episodes.concatenate([machine(8, 60), _renamed(machine(8, 41, seed=1))])
    monkeypatch.setattr("dfstrans.data.writers._BATCH_BYTES", 10_000)
    chosen = InjectionSettings(seed=5, strengths={"lag": (3,)})
    save_injection(inject_faults(mixed, chosen), tmp_path / "a.h5", {"seed": 5})
    save_episodes(mixed, tmp_path / "normal.h5")
    stored = load_episodes(tmp_path / "normal.h5")
    assert stored.is_stored
    save_injection(inject_faults(stored, chosen), tmp_path / "b.h5", {"seed": 5})
    expected = inject_faults(mixed, chosen).in_memory()
    for name in ("a.h5", "b.h5"):
        found = load_episodes(tmp_path / name)
        assert found.fingerprint() == expected.fingerprint()
        assert found.faults == expected.faults
    with h5py.File(tmp_path / "a.h5") as file:
        assert json.loads(file.attrs["recipe"]) == {"seed": 5}
    recipes = read_recipes(tmp_path / "a.h5")
    made = [recipe["fault"] for recipe in recipes if recipe["fault"] is not None]
    assert {recipe["source"] for recipe in recipes} <= set(mixed.ids.tolist())
    assert all(one["sensor"] in SENSORS and one["unit"] for one in made)
    assert all(("donor" in one) == (one["kind"] == "coupling-loss") for one in made)


def _renamed(episodes: Episodes) -> Episodes:
    return Episodes.from_arrays(
        episodes.values, ids=[f"short_{i}" for i in range(len(episodes))], sensors=SENSORS, interval=0.1
    )


def test_a_fault_longer_than_the_shortest_episode_is_refused() -> None:
    with pytest.raises(DfstransError, match=r"shortest episode, of 60 points.*got 55"):
        inject_faults(MACHINE, of("lag", "lag=55"))


def test_coupled_kinds_are_skipped_with_a_remark_for_one_sensor() -> None:
    alone = machine().select_sensors(["speed"])
    injection = inject_faults(alone, InjectionSettings())
    assert {kind for kind, _ in injection.conditions} <= set(KINDS) - {"lag", "coupling-loss"}
    assert any("lag is skipped: no two sensors move together" in said for said in injection.statements)
    with pytest.raises(DfstransError, match="lag is skipped"):
        inject_faults(alone, of("lag"))


def test_constant_sensors_are_named_and_refused_if_alone() -> None:
    assert "sensors that never move get no fault (1): fixed" in inject_faults(MACHINE, of("spike")).statements
    with pytest.raises(DfstransError, match="recordings in which sensors move"):
        inject_faults(machine().select_sensors(["fixed"]), InjectionSettings())


def resting(n: int = 10, moving: int = 10) -> Episodes:
    """Two sensors that rest near 0, but for a bump in the middle of the first episodes."""
    values = 1e-3 * np.random.default_rng(0).standard_normal((n, 2, 60)).astype(np.float32)
    values[:moving, :, 25:35] += 5.0
    return Episodes.from_arrays(values)


def test_fault_may_be_as_weak_as_requested() -> None:
    injection = inject_each(MACHINE, [("level-shift", 0.01), ("noise-burst", 0.01)], NORMAL, InjectionSettings())
    assert injection.conditions == {("level-shift", 0.01): len(MACHINE), ("noise-burst", 0.01): len(MACHINE)}


def test_faults_visible_nowhere_are_reported() -> None:
    partly = resting(10, moving=6)
    said = "4 of 10 {} are skipped: they would change almost nothing (signals at rest or missing)"
    injection = inject_faults(partly, of("dropout", "dropout=30"))
    assert said.format("faults") in injection.statements
    faulty = {row for row, fault in zip(injection.rows, injection.faults, strict=True) if fault is not None}
    assert faulty == set(range(6))
    trials = inject_each(partly, [("dropout", 30)], NormalSensors.measure(partly), InjectionSettings())
    assert trials.statements == (said.format("trials"),)


def test_a_switch_stays_a_switch() -> None:
    switch = NormalSensors.measure(MACHINE.select_sensors(["switch", "speed"]))
    injection = inject_each(
        MACHINE.select_sensors(["switch", "speed"]), [("coupling-loss", 100), ("lag", 3)], switch, InjectionSettings()
    )
    assert set(np.unique(injection.in_memory().values[:, 0])) == {0.0, 1.0}
    assert Counter(fault.sensor for fault in injection.faults if fault is not None)[0] > 3


def test_skipped_anomalous_episodes_are_reported() -> None:
    labelled = machine(6, labels=[0, 1, 0, 1, 0, 0])
    normal, said = normal_episodes(labelled)
    assert (len(normal), said) == (4, ["2 episodes labelled anomalous are skipped"])
    assert normal_episodes(machine(6))[1] == ["the 6 episodes have no labels; all are taken as normal"]
    assert normal_episodes(machine(2, labels=[0, 0]))[1] == []


def test_without_normal_episodes_there_is_nothing_to_inject_into() -> None:
    with pytest.raises(DfstransError, match="all labelled anomalous"):
        normal_episodes(machine(3, labels=[1, 1, 1]))
    with pytest.raises(DfstransError, match=r"at least two normal episodes.*got 1"):
        inject_faults(machine(1), InjectionSettings())


def test_too_few_episodes_for_all_kinds_are_reported() -> None:
    said = inject_faults(MACHINE, of("drift,gain,spike", share=0.3)).statements
    assert any("only 5 episodes get a fault, fewer than the 9 kinds and strengths" in one for one in said)
