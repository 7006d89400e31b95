"""Public data sets in their published layout: tiny ones made here, and the real ones where they are available."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dfstrans.data.episodes import Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.readers.public import commissioning_folder
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text

# ---- telemanom --------------------------------------------------------------------------------------------------


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


def test_telemanom_anomalies_have_inclusive_ends(tiny_telemanom: Path) -> None:
    episodes = load_episodes(tiny_telemanom, spacecraft="SMAP", length=10)
    assert episodes.ids.tolist() == ["P-2@0", "P-2@10"]
    assert episodes.sensors == ("telemetry", "command_1", "command_2")
    assert set(episodes.require_groups().tolist()) == {"P-2"}
    assert episodes.faults == (
        (Fault(3, 4, kind="contextual"), Fault(8, 10, kind="point")),
        (Fault(9, 10, kind="point"),),
    )
    assert_array_equal(episodes.values[1, 0], np.arange(30, 60, 3))
    by_stride = load_episodes(tiny_telemanom, spacecraft="SMAP", length=10, stride=5)
    assert by_stride.require_labels().tolist() == [1, 1, 1, 1]


def test_telemanom_needs_a_spacecraft_and_undamaged_files(tiny_telemanom: Path) -> None:
    def refused(words: str, **options: object) -> None:
        with pytest.raises(DfstransError, match=words):
            load_episodes(tiny_telemanom, length=10, **options)

    refused(r"one of the spacecraft MSL, SMAP.*spacecraft='SMAP'")
    refused("also got n_sensors", spacecraft="MSL", n_sensors=55)
    channel = tiny_telemanom / "test" / "P-2.npy"
    channel.write_bytes(channel.read_bytes()[:-10])
    refused(r"P-2\.npy, but the file ends early", spacecraft="SMAP")
    channel.unlink()
    refused(r"expected test/<channel>\.npy for channels such as P-2", spacecraft="SMAP")
    (tiny_telemanom / "labeled_anomalies.csv").write_text("chan_id,spacecraft\nP-2,SMAP\n")
    refused(r"labeled_anomalies\.csv", spacecraft="SMAP")


def test_normal_recordings_of_telemanom_are_read_without_labels(tiny_telemanom: Path) -> None:
    assert commissioning_folder(tiny_telemanom) is None
    (tiny_telemanom / "train").mkdir()
    with pytest.raises(DfstransError, match=r"expected train/<channel>\.npy for channels such as P-2"):
        load_episodes(tiny_telemanom / "train", spacecraft="SMAP", length=10)
    np.save(tiny_telemanom / "train" / "P-2.npy", np.arange(90.0).reshape(30, 3))
    folder = commissioning_folder(tiny_telemanom)
    assert folder == tiny_telemanom / "train"
    episodes = load_episodes(folder, spacecraft="SMAP", length=10)
    assert (episodes.labels, episodes.faults) == (None, None)
    assert episodes.ids.tolist() == ["P-2@0", "P-2@10", "P-2@20"]
    assert episodes.require_groups().tolist() == ["P-2"] * 3
    assert episodes.sensors == load_episodes(tiny_telemanom, spacecraft="SMAP", length=10).sensors
    assert_array_equal(episodes.values[2, 0], np.arange(60, 90, 3))


def test_data_set_in_a_folder_named_train_is_itself(tiny_telemanom: Path) -> None:
    moved = tiny_telemanom.rename(tiny_telemanom.with_name("train"))
    assert load_episodes(moved, spacecraft="MSL", length=10).labels is not None


@pytest.mark.parametrize(("spacecraft", "n_sensors", "counts"), [("SMAP", 25, (848, 161)), ("MSL", 55, (136, 40))])
def test_real_spacecraft_give_the_known_counts(
    telemanom_folder: Path, spacecraft: str, n_sensors: int, counts: tuple[int, int]
) -> None:
    episodes = load_episodes(telemanom_folder, spacecraft=spacecraft)
    assert (len(episodes), episodes.n_anomalous, episodes.n_sensors) == (*counts, n_sensors)


# ---- Server Machine Dataset -------------------------------------------------------------------------------------


@pytest.fixture
def tiny_machines(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).random((25, 38)).round(6)
    flags = np.isin(np.arange(25), (8, 9, 10, 11))
    for part in ("test", "test_label", "interpretation_label"):
        (tmp_path / part).mkdir()
    for name in ("machine-1-1.txt", "machine-3-11.txt"):
        np.savetxt(tmp_path / "test" / name, rows, fmt="%.6f", delimiter=",")
        np.savetxt(tmp_path / "test_label" / name, flags, fmt="%d")
        (tmp_path / "interpretation_label" / name).write_text("8-12:1,38\n")
    return tmp_path


def test_server_machines_are_cut_and_their_faults_clipped(tiny_machines: Path) -> None:
    episodes = load_episodes(tiny_machines, length=10)
    assert episodes.ids.tolist() == ["machine-1-1@0", "machine-1-1@10", "machine-3-11@0", "machine-3-11@10"]
    blamed = ("cpu_r", "udp_snd_buf_errs")
    assert episodes.faults == ((Fault(8, 10, blamed),), (Fault(0, 2, blamed),)) * 2
    assert episodes.n_anomalous == 4


def test_normal_recordings_of_server_machines_are_read_without_labels(tiny_machines: Path) -> None:
    assert commissioning_folder(tiny_machines) is None
    (tiny_machines / "train").mkdir()
    np.savetxt(tiny_machines / "train" / "machine-1-1.txt", np.zeros((12, 38)), fmt="%.6f", delimiter=",")
    episodes = load_episodes(tiny_machines / "train", length=5)
    assert (episodes.labels, episodes.faults) == (None, None)
    assert episodes.ids.tolist() == ["machine-1-1@0", "machine-1-1@5"]
    assert episodes.sensors[0] == "cpu_r"


def test_server_machines_without_interpretation_have_no_faults(tiny_machines: Path) -> None:
    (tiny_machines / "interpretation_label").rename(tiny_machines / "other")
    episodes = load_episodes(tiny_machines, length=5)
    assert episodes.faults is None
    assert episodes.require_labels().tolist() == [0, 1, 1, 0, 0] * 2


@pytest.mark.parametrize(
    ("part", "content", "words"),
    [
        ("interpretation_label", "8-12:0\n", "expected dimensions 1 to 38"),
        ("interpretation_label", "rubbish\n", r"machine-1-1\.txt"),
        ("test_label", "0\n1\n", r"machine-1-1 in .*, got 2 labels and 25 points"),
        ("test_label", None, r"machine-1-1\.txt, got nothing there"),
    ],
)
def test_damaged_server_machine_is_named(tiny_machines: Path, part: str, content: str | None, words: str) -> None:
    file = tiny_machines / part / "machine-1-1.txt"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(DfstransError, match=words):
        load_episodes(tiny_machines, length=5)


def test_real_machines_give_the_known_counts(smd_folder: Path) -> None:
    episodes = load_episodes(smd_folder, length=500, stride=500)
    assert episodes.faults is not None
    assert (len(episodes), episodes.n_anomalous) == (949, 289)
    blamed = [any(fault.sensors for fault in faults) for faults in episodes.faults]
    assert int((np.array(blamed) & (episodes.require_labels() == 1)).sum()) == 288


# ---- UEA and UCR archives ---------------------------------------------------------------------------------------

HEADER = "#comment\n@problemName demo\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n"
CLASSES = HEADER + "@classLabel true bad good\n@data\n"
NO_CLASSES = HEADER + "@classLabel false\n@data\n"


def test_ts_cases_have_dimensions_missing_values_and_different_lengths(tmp_path: Path) -> None:
    text = CLASSES + "1,2,3:4,?,6:good\n7,8:9,10:bad\n"
    episodes = from_text(tmp_path, text, "demo.ts", anomalous_value="bad")
    assert (episodes.sensors, episodes.lengths.tolist()) == (("dimension_1", "dimension_2"), [3, 2])
    assert_array_equal(episodes.values, [[[1, 2, 3], [4, np.nan, 6]], [[7, 8, np.nan], [9, 10, np.nan]]])
    assert episodes.require_labels().tolist() == [0, 1]
    with pytest.raises(DfstransError, match="got worn; specify which"):
        from_text(tmp_path, text.replace("bad", "worn"), "demo.ts")


def test_ts_without_classes_is_unlabelled_and_0_1_need_no_anomalous_value(tmp_path: Path) -> None:
    assert from_text(tmp_path, NO_CLASSES + "1,2:3,4\n", "demo.ts").labels is None
    text = HEADER + "@classLabel true 0 1\n@data\n1,2:3,4:1\n1,2:3,5:0\n"
    assert from_text(tmp_path, text, "demo.ts").n_anomalous == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@timeStamps true\n@classLabel true bad good\n@data\n1,2:3,4:good\n", "without timestamps"),
        ("@targetLabel true\n@data\n1,2:3,4:0.5\n", "regression"),
        ("@dimensions two\n@data\n1,2:3,4\n", "a number as @dimensions"),
        ("@data\n1,2:3,4\n1,2\n", "same number of sensors"),
        ("time,a\n0,1\n", "start with @"),
        (HEADER, "a line @data in .*ends early"),
        (HEADER + "@data\n", "cases below @data"),
        (CLASSES + "1,2:good\n", "expected 2 dimensions in line 9"),
        (CLASSES + "1,2:3,4:go\n", "got go: a line ends early"),
        (CLASSES + "1,2:3,x:good\n", "numbers or [?] in line 9"),
        (CLASSES + "1,2:3:good\n", "equally many points"),
        ("@equalLength true\n@seriesLength 3\n@data\n1,2:3,4\n", "expected 3 points"),
    ],
)
def test_ts_that_is_damaged_or_not_a_classification_set_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DfstransError, match=words):
        from_text(tmp_path, text, "demo.ts")
