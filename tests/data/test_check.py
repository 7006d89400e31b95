"""The data check names what is wrong and keeps quiet about what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dfstrans.data import check
from dfstrans.data.check import DataCheck, check_episodes
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.writers import save_episodes

Array = npt.NDArray[np.float32]


def noise(n: int = 30, n_sensors: int = 3, n_timepoints: int = 40) -> Array:
    return np.random.default_rng(0).standard_normal((n, n_sensors, n_timepoints)).astype(np.float32)


def checked(values: Array, **known: object) -> DataCheck:
    labels = np.arange(len(values)) % 2
    return check_episodes(Episodes.from_arrays(values, labels, **known))  # type: ignore[arg-type]


def rounded(result: DataCheck) -> dict[str, Any]:
    """The check as JSON gives it, but for the order in which numbers were added up."""
    plain: dict[str, Any] = json.loads(json.dumps(result.to_dict()), parse_float=lambda text: round(float(text), 9))
    return plain


def messages(result: DataCheck, level: str) -> str:
    return "\n".join(finding.message for finding in result.findings if finding.level == level)


def test_clean_episodes_give_no_finding() -> None:
    result = checked(noise())
    assert result.findings == ()
    assert result.ok


def test_numbers_are_those_worked_out_by_hand() -> None:
    values = np.array([[[1, 2, np.nan, 99], [5, 5, 5, 99]], [[3, 4, 5, 6], [5, 5, 5, 5]]], dtype=np.float32)
    episodes = Episodes.from_arrays(values, [0, 1], lengths=[3, 4], sensors=["a", "b"], groups=["m", "m"], interval=2)
    given = rounded(check_episodes(episodes))
    expected = {
        "episodes": 2,
        "anomalous": 1,
        "normal": 1,
        "unlabelled": 0,
        "shortest": 3,
        "median_length": 3.5,
        "longest": 4,
        "interval": 2.0,
        "groups": 1,
        "missing": round(1 / 14, 9),
        "missing_by_sensor": {"a": round(1 / 7, 9), "b": 0.0},
        "ranges": {"a": {"min": 1.0, "max": 6.0, "mean": 3.5}, "b": {"min": 5.0, "max": 5.0, "mean": 5.0}},
        "constant_sensors": ["b"],
    }
    assert {name: given[name] for name in expected} == expected
    assert list(given["missing_by_sensor"]) == ["a", "b"]


def test_the_check_is_plain_json_even_without_a_single_value() -> None:
    result = checked(np.full((2, 1, 5), np.nan, dtype=np.float32))
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["ranges"]["sensor_1"]["min"] is None
    assert "no value at all in sensor_1" in messages(result, "error")
    assert not result.ok


def test_batches_and_files_do_not_change_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = noise()
    values[3, 1, 5:] = values[3, 1, 5]
    values[7] = values[2]
    episodes = Episodes.from_arrays(values, np.arange(30) % 2)
    whole = check_episodes(episodes)
    stored = load_episodes(save_episodes(episodes, tmp_path / "set.h5"))
    monkeypatch.setattr(check, "_BATCH_BYTES", 2000)
    seen: list[int] = []
    assert rounded(check_episodes(stored, seen.append)) == rounded(whole)
    assert sum(seen) == 30
    assert len(seen) > 5


def test_a_stuck_sensor_is_counted_and_its_episodes_named() -> None:
    values = noise()
    values[4, 1] = 0.5
    values[9, 1, 10:35] = 7
    result = checked(values)
    assert result.stuck_sensors == {"sensor_2": 2}
    assert "though lively in others: sensor_2 (2 episodes, such as episode_4)" in messages(result, "warning")


def test_a_sensor_that_stands_still_in_most_episodes_is_information_and_no_warning() -> None:
    values = noise(24)
    values[10:, 2] = 7
    result = checked(values)
    assert result.stuck_sensors == {"sensor_3": 14}
    assert "standing still in most episodes, though lively in others: sensor_3 (14" in messages(result, "info")
    assert "leave the episodes out" not in messages(result, "warning")


def test_a_small_signal_on_a_large_offset_is_warned_of() -> None:
    values = (noise().astype(np.float64) * [[1], [100], [500]] + [[0], [1e6], [1.7e9]]).astype(np.float32)
    result = checked(values)
    assert result.rounded_sensors == ("sensor_3",)
    assert "few values only: sensor_3; subtract the offset" in messages(result, "warning")


def test_a_signal_that_32_bits_lose_altogether_is_no_plain_constant() -> None:
    values = (noise().astype(np.float64) + np.array([[0], [5], [1.7e9]])).astype(np.float32)
    values[:, 1] = 5
    result = checked(values)
    assert result.constant_sensors == ("sensor_2", "sensor_3")
    assert "one value throughout, which tells nothing and may be left out: sensor_2" in messages(result, "info")
    assert "as far as 32 bits tell, but a large one: sensor_3" in messages(result, "warning")


def test_a_label_that_is_read_as_a_sensor_is_asked_about() -> None:
    values = noise(n_sensors=5)
    values[:, 1] = (np.arange(30) % 5 == 0)[:, np.newaxis]
    values[:, 2, ::2], values[:, 2, 1::2] = 0, 1  # a switch, no label
    values[:, 3] = (np.arange(30) % 5 / 4)[:, np.newaxis]  # a setting of five steps
    values[:, 4] = np.random.default_rng(1).random((30, 40)) < 0.5
    values[:, 4, 1::2] = np.nan  # at half the rate, so that no two neighbours are there
    result = check_episodes(Episodes.from_arrays(values))
    assert result.label_like_sensors == ("sensor_2",)
    assert "is it sensor_2, now read as a sensor" in messages(result, "warning")
    assert "load_episodes(…, label_column='sensor_2')" in messages(result, "warning")
    assert "of arrays, move it into one called labels and leave the sensor out" in messages(result, "warning")


def test_mostly_zero_and_one_hot_sensors_are_not_called_stuck() -> None:
    values = noise(n_sensors=4)
    rng = np.random.default_rng(1)
    values[:, 1] = rng.random((30, 40)) < 0.03
    values[:, 2] = (rng.random(30) < 0.5)[:, np.newaxis]
    values[:, 3] = np.repeat(rng.random((30, 4)), 10, axis=1)  # a slow sensor holds each value for a while
    assert checked(values).findings == ()


def test_identical_sensors_and_episodes_are_found() -> None:
    values = noise()
    values[:, 2] = values[:, 0]
    values[11] = values[5]
    result = checked(values)
    assert result.duplicated_sensors == (("sensor_1", "sensor_3"),)
    assert result.duplicated_episodes == (("episode_5", "episode_11"),)
    assert "sensor_1 = sensor_3" in messages(result, "warning")
    assert "same content: episode_5, episode_11" in messages(result, "warning")


def test_infinite_values_are_an_error_and_spoil_no_range() -> None:
    values = noise()
    values[0, 0, 0] = np.inf
    result = checked(values)
    assert result.infinite_values == {"sensor_1": 1}
    assert "infinite values in sensor_1" in messages(result, "error")
    assert result.ranges["sensor_1"].max == pytest.approx(float(values[1:, 0].max()), abs=2)
    assert result.missing == 0


def test_missing_values_are_reported_by_sensor_and_episode() -> None:
    values = noise()
    values[:, 1, :20] = np.nan
    values[3, 2] = np.nan
    result = checked(values)
    assert "many missing values in sensor_2 (50%)" in messages(result, "warning")
    assert "sensor_3 (1 episode)" in messages(result, "warning")
    assert next(iter(result.missing_by_sensor)) == "sensor_2"


def test_gaps_in_time_are_counted_by_episode(tmp_path: Path) -> None:
    times = {"x": (0, 1, 4, 5), "y": (0, 1, 2, 3), "z": (0, 2, 3, 4)}
    rows = [f"{name},{t},{t + len(name)},{t * t},0" for name, present in times.items() for t in present]
    (tmp_path / "runs.csv").write_text("\n".join(["id,time,a,b,label", *rows]))
    result = check_episodes(load_episodes(tmp_path / "runs.csv"))
    assert result.gaps == {"x": 2, "z": 1}
    assert "3 points without a value of any sensor, in 2 episodes: x (2), z (1)" in messages(result, "info")


def test_only_a_label_that_changes_tells_the_place(tmp_path: Path) -> None:
    labels = {"changing": (0, 1, 1, 0), "constant": (1, 1, 1, 1), "normal": (0, 0, 0, 0)}
    rows = [f"{name},{t},{t},{label}" for name, points in labels.items() for t, label in enumerate(points)]
    (tmp_path / "runs.csv").write_text("\n".join(["id,time,a,label", *rows]))
    episodes = load_episodes(tmp_path / "runs.csv")
    assert episodes.faults == ((Fault(1, 3),), (), ())
    result = check_episodes(episodes)
    assert result.partly_anomalous == ("changing",)
    assert "1 episode: changing; each counts as anomalous as a whole" in messages(result, "info")
    pieces = load_episodes(tmp_path / "runs.csv", length=2)
    assert pieces.labels is not None
    assert pieces.labels.tolist() == [1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(("n_timepoints", "words"), [(4, "20 sensors and only 4 points"), (30, "more alike")])
def test_transposed_axes_are_suspected(n_timepoints: int, words: str) -> None:
    scales = np.random.default_rng(0).uniform(-50, 50, (1, 1, n_timepoints))
    time = np.linspace(0, 3, 20)[np.newaxis, :, np.newaxis]
    values = scales * (2 + np.sin(time + np.arange(12)[:, np.newaxis, np.newaxis]))  # really (episode, time, sensor)
    assert words in messages(checked(values.astype(np.float32)), "warning")
    assert "transposed" in messages(checked(values.astype(np.float32)), "warning")


def test_classes_out_of_balance_are_reported() -> None:
    values = noise(n=300)
    for labels, words, level in (
        (np.zeros(300), "all episodes are normal", "error"),
        (np.ones(300), "all episodes are anomalous", "error"),
        (np.arange(300) < 1, "only 1 of 300 episodes is anomalous: training needs at least 4", "error"),
        (np.arange(300) < 3, "only 3 of 300 episodes are anomalous: training needs at least 4", "error"),
        (np.arange(300) < 4, "only 4 of 300 episodes are anomalous", "warning"),
        (None, "no labels", "info"),
    ):
        result = check_episodes(Episodes.from_arrays(values, labels))
        assert words in messages(result, level)
        assert result.ok == (level != "error")


def test_very_different_lengths_are_mentioned() -> None:
    result = checked(noise(), lengths=[5] + [40] * 29)
    assert "lengths from 5 to 40 points" in messages(result, "info")


def test_the_real_machines_have_no_error(smd_folder: Path) -> None:
    result = check_episodes(load_episodes(smd_folder))
    assert (result.episodes, result.anomalous, result.ok) == (949, 289, True)
    assert result.constant_sensors == ("total_mem",)


def test_a_sensor_that_is_as_good_as_the_label_is_named() -> None:
    values = noise()
    labels = np.arange(len(values)) % 2
    values[:, 1] = 0
    values[labels == 1, 1, 7:] = 1  # a label per point, read as a sensor
    result = checked(values, sensors=["a", "fault_code", "b"])
    assert result.telltale_sensors == ("fault_code",)
    assert "as good as the label: fault_code" in messages(result, "warning")
    values[3, 1] = 0  # one anomaly that it does not tell
    assert checked(values).telltale_sensors == ()


def test_with_few_episodes_no_sensor_is_taken_for_the_label() -> None:
    assert checked(noise(n=4)).telltale_sensors == ()


def test_episodes_without_a_value_are_named() -> None:
    values = noise()
    values[4] = np.nan
    result = checked(values, ids=[f"run {i}" for i in range(30)])
    assert result.empty_episodes == ("run 4",)
    assert "no value at all in run 4" in messages(result, "warning")


def test_episodes_too_short_to_train_on_are_told() -> None:
    assert "the shortest episode has 7 points, and training needs 8" in messages(
        checked(noise(n_timepoints=7)), "warning"
    )
    assert "shortest episode" not in messages(checked(noise(n_timepoints=8)), "warning")


def test_an_empty_set_is_one_error() -> None:
    result = check_episodes(Episodes.from_arrays(noise()[:0], []))
    assert [finding.message for finding in result.findings] == ["no episodes at all: was the file written to its end?"]
    assert not result.ok


def test_episodes_at_a_slower_rate_are_named_and_no_sensor_is_blamed_for_it() -> None:
    values = np.random.default_rng(0).normal(size=(12, 2, 60)).astype(np.float32)
    values[::3, :, np.arange(60) % 2 > 0] = np.nan
    values[1, :, 7] = np.nan
    episodes = Episodes.from_arrays(values, np.arange(12) % 2)
    check = check_episodes(episodes)
    slow = [str(name) for name in episodes.ids[::3]]
    assert check.slower_episodes == dict.fromkeys(slow, 2)
    assert check.gaps == {str(episodes.ids[1]): 1}
    said = " ".join(finding.message for finding in check.findings)
    assert f"recorded more slowly than the others: {slow[0]} (2 times)" in said
    assert "many missing values" not in said
    with pytest.warns(UserWarning, match=r"recorded more slowly than the others.*resample all recordings to one rate"):
        SensorScaler.fit(episodes)


def test_gaps_at_every_second_point_of_all_episodes_are_gaps() -> None:
    values = np.random.default_rng(0).normal(size=(4, 2, 60)).astype(np.float32)
    values[:3, :, 1::2] = np.nan
    values[3] = np.nan  # it has no rate
    episodes = Episodes.from_arrays(values, np.arange(4) % 2)
    check = check_episodes(episodes)
    assert check.slower_episodes == {}
    assert list(check.gaps.values()) == [30, 30, 30, 60]
    said = " ".join(finding.message for finding in check.findings)
    assert "150 points without a value" in said
    assert "many missing values" in said
    assert "slowly" not in said
    with pytest.warns(UserWarning, match="no value at all") as warned:
        SensorScaler.fit(episodes)
    assert len(warned) == 1
