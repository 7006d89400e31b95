"""The public data sets in their published layout: tiny ones made here, and the real ones where they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Fault
from dfstrans.data.readers import load_episodes
from dfstrans.errors import DfstransError


@pytest.fixture
def tiny_telemanom(tmp_path: Path) -> Path:
    (tmp_path / "test").mkdir()
    (tmp_path / "labeled_anomalies.csv").write_text(
        "chan_id,spacecraft,anomaly_sequences,class,num_values\n"
        'P-2,SMAP,"[[8, 9]]",[point],25\n'
        'P-2,SMAP,"[[3, 3], [19, 20]]","[contextual, point]",25\n'
        'M-1,MSL,"[[0, 1]]",[point],20\n'
    )
    np.save(tmp_path / "test" / "P-2.npy", np.arange(75.0).reshape(25, 3))
    np.save(tmp_path / "test" / "M-1.npy", np.zeros((20, 5)))
    return tmp_path


def test_telemanom_channels_are_cut_with_inclusive_ends_and_both_lines_of_p_2(tiny_telemanom: Path) -> None:
    episodes = load_episodes(tiny_telemanom, spacecraft="SMAP", length=10)
    assert episodes.ids.tolist() == ["P-2@0", "P-2@10"]
    assert episodes.sensors == ("telemetry", "command_1", "command_2")
    assert episodes.groups is not None
    assert set(episodes.groups.tolist()) == {"P-2"}
    assert episodes.faults == (
        (Fault(3, 4, kind="contextual"), Fault(8, 10, kind="point")),
        (Fault(9, 10, kind="point"),),
    )
    assert_array_equal(np.asarray(episodes.values)[1, 0], np.arange(30, 60, 3))
    by_stride = load_episodes(tiny_telemanom, spacecraft="SMAP", length=10, stride=5)
    assert by_stride.labels is not None
    assert by_stride.labels.tolist() == [1, 1, 1, 1]


def test_telemanom_needs_a_choice_of_spacecraft_and_its_files(tiny_telemanom: Path) -> None:
    with pytest.raises(DfstransError, match=r"one of the spacecraft MSL, SMAP.*spacecraft='SMAP'"):
        load_episodes(tiny_telemanom, length=10)
    with pytest.raises(DfstransError, match="got also n_sensors"):
        load_episodes(tiny_telemanom, spacecraft="MSL", n_sensors=55)
    damaged = tiny_telemanom / "test" / "P-2.npy"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with pytest.raises(DfstransError, match=r"P-2\.npy, but the file ends early"):
        load_episodes(tiny_telemanom, spacecraft="SMAP", length=10)
    damaged.unlink()
    with pytest.raises(DfstransError, match=r"expected test/<channel>\.npy for channels such as P-2"):
        load_episodes(tiny_telemanom, spacecraft="SMAP", length=10)
    (tiny_telemanom / "labeled_anomalies.csv").write_text("chan_id,spacecraft\nP-2,SMAP\n")
    with pytest.raises(DfstransError, match=r"labeled_anomalies\.csv"):
        load_episodes(tiny_telemanom, spacecraft="SMAP", length=10)


@pytest.fixture
def tiny_machines(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).random((25, 38)).round(6)
    for name in ("machine-1-1", "machine-3-11"):
        for part in ("test", "test_label", "interpretation_label"):
            (tmp_path / part).mkdir(exist_ok=True)
        np.savetxt(tmp_path / "test" / f"{name}.txt", rows, fmt="%.6f", delimiter=",")
        flags = np.isin(np.arange(25), (8, 9, 10, 11))
        np.savetxt(tmp_path / "test_label" / f"{name}.txt", flags, fmt="%d")
        (tmp_path / "interpretation_label" / f"{name}.txt").write_text("8-12:1,38\n")
    return tmp_path


def test_server_machines_are_cut_and_their_blamed_sensors_clipped(tiny_machines: Path) -> None:
    episodes = load_episodes(tiny_machines, length=10)
    assert episodes.ids.tolist() == ["machine-1-1@0", "machine-1-1@10", "machine-3-11@0", "machine-3-11@10"]
    blamed = ("cpu_r", "udp_snd_buf_errs")
    assert episodes.faults == ((Fault(8, 10, blamed),), (Fault(0, 2, blamed),)) * 2
    assert episodes.n_anomalous == 4


def test_server_machines_without_interpretation_have_no_faults(tiny_machines: Path) -> None:
    for file in (tiny_machines / "interpretation_label").iterdir():
        file.unlink()
    (tiny_machines / "interpretation_label").rmdir()
    episodes = load_episodes(tiny_machines, length=5)
    assert episodes.faults is None
    assert episodes.labels is not None
    assert episodes.labels.tolist() == [0, 1, 1, 0, 0] * 2


def test_a_damaged_server_machine_is_named(tiny_machines: Path) -> None:
    (tiny_machines / "interpretation_label" / "machine-1-1.txt").write_text("8-12:0\n")
    with pytest.raises(DfstransError, match="expected dimensions 1 to 38"):
        load_episodes(tiny_machines, length=5)
    (tiny_machines / "interpretation_label" / "machine-1-1.txt").write_text("rubbish\n")
    with pytest.raises(DfstransError, match=r"machine-1-1\.txt"):
        load_episodes(tiny_machines, length=5)
    (tiny_machines / "test_label" / "machine-1-1.txt").write_text("0\n1\n")
    with pytest.raises(DfstransError, match=r"machine-1-1 in .*, got 2 labels and 25 points"):
        load_episodes(tiny_machines, length=5)
    (tiny_machines / "test_label" / "machine-1-1.txt").unlink()
    with pytest.raises(DfstransError, match=r"machine-1-1\.txt, got nothing there"):
        load_episodes(tiny_machines, length=5)


@pytest.mark.parametrize(("spacecraft", "n_sensors", "counts"), [("SMAP", 25, (848, 161)), ("MSL", 55, (136, 40))])
def test_the_real_spacecraft_give_the_known_counts(
    telemanom_folder: Path, spacecraft: str, n_sensors: int, counts: tuple[int, int]
) -> None:
    episodes = load_episodes(telemanom_folder, spacecraft=spacecraft)
    assert (len(episodes), episodes.n_anomalous) == counts
    assert episodes.n_sensors == n_sensors


def test_the_real_machines_give_the_known_counts(smd_folder: Path) -> None:
    episodes = load_episodes(smd_folder, length=500, stride=500)
    assert episodes.labels is not None
    assert episodes.faults is not None
    assert (len(episodes), episodes.n_anomalous) == (949, 289)
    blamed = [any(fault.sensors for fault in faults) for faults in episodes.faults]
    assert int((np.array(blamed) & (episodes.labels == 1)).sum()) == 288
