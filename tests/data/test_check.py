"""The data check names what is wrong and nothing else; it suggests how to cut and resample."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dfstrans.data.check import SECONDS_PER_CELL, check_episodes, estimate_training_seconds
from dfstrans.data.episodes import Episodes, Fault
from dfstrans.data.readers import load_episodes
from dfstrans.data.readers.cutting import cut
from dfstrans.data.scaling import SensorScaler
from dfstrans.data.tally import DataCheck
from dfstrans.data.writers import save_episodes
from dfstrans.errors import settings_as_options

Array = npt.NDArray[np.float32]


def noise(n: int = 30, n_sensors: int = 3, n_timepoints: int = 40) -> Array:
    return np.random.default_rng(0).standard_normal((n, n_sensors, n_timepoints)).astype(np.float32)


def checked(values: Array, **known: Any) -> DataCheck:
    return check_episodes(Episodes.from_arrays(values, np.arange(len(values)) % 2, **known))


def rounded(result: DataCheck) -> dict[str, Any]:
    """The check as JSON, without the rounding errors of sums in another order."""
    plain: dict[str, Any] = json.loads(json.dumps(result.to_dict()), parse_float=lambda text: round(float(text), 9))
    return plain


def messages(result: DataCheck, level: str) -> str:
    return "\n".join(finding.message for finding in result.findings if finding.level == level)


def test_numbers_worked_out_by_hand() -> None:
    values = np.array([[[1, 2, np.nan, 99], [5, 5, 5, 99]], [[3, 4, 5, 6], [5, 5, 5, 5]]], dtype=np.float32)
    given = rounded(checked(values, lengths=[3, 4], sensors=["a", "b"], groups=["m", "m"], interval=2))
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


def test_the_check_is_valid_json_even_without_any_value() -> None:
    empty = check_episodes(Episodes.from_arrays(noise()[:0], []))
    assert [(finding.level, finding.message[:11]) for finding in empty.findings] == [("error", "no episodes")]
    result = checked(np.full((2, 1, 5), np.nan, dtype=np.float32))
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["ranges"]["sensor_1"]["min"] is None
    assert "sensors without any value: sensor_1" in messages(result, "error")
    assert not result.ok


def test_batches_and_files_do_not_change_the_check(tmp_path: Path) -> None:
    values = noise()
    values[3, 1, 5:] = values[3, 1, 5]
    values[7] = values[2]
    episodes = Episodes.from_arrays(values, np.arange(30) % 2)
    stored = load_episodes(save_episodes(episodes, tmp_path / "set.h5"))
    seen: list[int] = []
    assert rounded(check_episodes(stored, seen.append, batch_bytes=2000)) == rounded(check_episodes(episodes))
    assert sum(seen) == 30
    assert len(seen) > 5


def test_harmless_sensors_give_no_finding() -> None:
    values = noise(n_sensors=4)
    rng = np.random.default_rng(1)
    values[:, 1] = rng.random((30, 40)) < 0.03  # mostly zero
    values[:, 2] = (rng.random(30) < 0.5)[:, np.newaxis]  # one-hot
    values[:, 3] = np.repeat(rng.random((30, 4)), 10, axis=1)  # slow: it holds each value for a while
    result = checked(values)
    assert result.findings == ()
    assert result.ok


def test_a_stuck_sensor_is_a_warning_unless_it_is_constant_in_most_episodes() -> None:
    values = noise()
    values[4, 1] = 0.5
    values[9, 1, 10:35] = 7
    values[13:, 2] = 7
    result = checked(values)
    assert result.stuck_sensors == {"sensor_2": 2, "sensor_3": 17}
    assert messages(result, "warning").count("active in others") == 1
    assert "active in others: sensor_2 (2 episodes, such as episode_4)" in messages(result, "warning")
    assert "constant in most episodes, but active in others: sensor_3 (17" in messages(result, "info")


def test_rounding_to_float32_is_reported() -> None:
    scale, offset = np.array([[1], [100], [500], [1], [0]]), np.array([[0], [1e6], [1.7e9], [1.7e9], [5]])
    result = checked((noise(n_sensors=5).astype(np.float64) * scale + offset).astype(np.float32))
    assert (result.rounded_sensors, result.offset_sensors) == (("sensor_3",), ("sensor_4",))
    assert result.constant_sensors == ("sensor_4", "sensor_5")
    assert "to a few values: sensor_3; subtract" in messages(result, "warning")
    assert "constant in float32: sensor_4;" in messages(result, "warning")
    assert messages(result, "info").endswith("may be dropped: sensor_5")


def test_a_label_read_as_a_sensor_is_suspected() -> None:
    values = noise(n_sensors=5)
    values[:, 1] = (np.arange(30) % 5 == 0)[:, np.newaxis]
    values[:, 2, ::2], values[:, 2, 1::2] = 0, 1  # a switch, not a label
    values[:, 3] = (np.arange(30) % 5 / 4)[:, np.newaxis]  # a setting of five steps
    values[:, 4] = np.random.default_rng(1).random((30, 40)) < 0.5
    values[:, 4, 1::2] = np.nan  # no two neighbouring points have values
    result = check_episodes(Episodes.from_arrays(values))
    assert result.label_like_sensors == ("sensor_2",)
    assert "is sensor_2, read as a sensor, the label?" in messages(result, "warning")
    assert "load_episodes(…, label_column='sensor_2')" in messages(result, "warning")


def test_a_code_of_each_episode_is_suspected_to_be_the_label() -> None:
    values = noise()
    values[:, 1] = np.array([0, 0, 0, 3, 7])[np.arange(30) % 5][:, np.newaxis]
    values[:, 2] = np.arange(30)[:, np.newaxis]  # a number of its own for each episode
    result = check_episodes(Episodes.from_arrays(values))
    assert result.code_sensors == {"sensor_2": (0, 3, 7)}
    assert "label_column='sensor_2') and load_episodes(…, normal_value=0)" in messages(result, "warning")
    assert "the label?" not in messages(checked(values), "warning")


def test_a_sensor_that_reveals_the_label_is_named() -> None:
    values = noise()
    values[:, 1] = 0
    values[1::2, 1, 7:] = 1  # a label per point, read as a sensor
    result = checked(values, sensors=["a", "fault_code", "b"])
    assert result.telltale_sensors == ("fault_code",)
    assert "reveal the label: fault_code" in messages(result, "warning")
    assert checked(values[:4]).telltale_sensors == ()  # too few episodes to tell
    values[3, 1] = 0  # one anomaly that it does not reveal
    assert checked(values).telltale_sensors == ()


def test_identical_sensors_and_episodes_are_found() -> None:
    values = noise()
    values[:, 2] = values[:, 0]
    values[11] = values[5]
    result = checked(values)
    assert result.duplicated_sensors == (("sensor_1", "sensor_3"),)
    assert result.duplicated_episodes == (("episode_5", "episode_11"),)
    assert "identical sensors: sensor_1 = sensor_3" in messages(result, "warning")
    assert "1 episode of 30 is a copy of others: episode_5 = episode_11; keep one of each" in messages(
        result, "warning"
    )
    assert "another label" not in messages(result, "warning")
    labels = np.arange(30) % 2
    labels[11] = 0
    contradicting = check_episodes(Episodes.from_arrays(values, labels))
    assert "with the same values as others, but another label: episode_11" in messages(contradicting, "warning")


def test_missing_and_infinite_values_are_reported_by_sensor_and_episode() -> None:
    values = noise()
    values[:, 1, :20] = np.nan
    values[3, 2] = np.nan
    values[4] = np.nan
    expected = checked(values).ranges["sensor_1"], checked(values).missing
    values[0, 0, values[0, 0].argmin()] = np.inf
    result = checked(values)
    assert result.infinite_values == {"sensor_1": 1}
    assert "infinite values in sensor_1" in messages(result, "error")
    assert (result.ranges["sensor_1"].max, result.missing) == (expected[0].max, expected[1])
    assert next(iter(result.missing_by_sensor)) == "sensor_2"
    assert result.empty_episodes == ("episode_4",)
    warnings = messages(result, "warning")
    assert "many missing values in sensor_2 (52 %)" in warnings
    assert "no value in some episodes: sensor_3 (1 episode)" in warnings
    assert "episodes without any value: episode_4" in warnings


def test_gaps_and_partly_anomalous_episodes_are_reported() -> None:
    values = noise(n=3, n_timepoints=8)
    values[0, :, 2:4] = values[2, :, 1] = np.nan
    values[1, 0, 5] = np.nan  # other sensors have a value there
    result = checked(values, ids=["x", "y", "z"], faults=[[Fault(0, 8)], [Fault(1, 3)], []])
    assert result.gaps == {"x": 2, "z": 1}
    assert result.partly_anomalous == ("y",)
    assert "no sensor has a value at 3 points in time, in 2 episodes: x (2), z (1)" in messages(result, "info")
    assert "1 episode with a fault in only part of the episode: y" in messages(result, "info")


@pytest.mark.parametrize(("n_timepoints", "words"), [(4, "20 sensors and only 4 points"), (30, "more alike")])
def test_transposed_axes_are_suspected(n_timepoints: int, words: str) -> None:
    scales = np.random.default_rng(0).uniform(-50, 50, (1, 1, n_timepoints))
    time = np.linspace(0, 3, 20)[np.newaxis, :, np.newaxis]
    values = scales * (2 + np.sin(time + np.arange(12)[:, np.newaxis, np.newaxis]))  # really (episode, time, sensor)
    said = messages(checked(values.astype(np.float32)), "warning")
    assert words in said
    assert "transposed" in said


@pytest.mark.parametrize(
    ("labels", "words", "level"),
    [
        (np.zeros(300), "all episodes are normal", "error"),
        (np.ones(300), "all episodes are anomalous", "error"),
        (np.arange(300) < 1, "only 1 of 300 episodes is anomalous: training needs at least 4", "error"),
        (np.arange(300) < 3, "only 3 of 300 episodes are anomalous: training needs at least 4", "error"),
        (np.arange(300) < 4, "only 4 of 300 episodes are anomalous", "warning"),
        (None, "no labels", "info"),
    ],
)
def test_imbalanced_classes_are_reported(labels: Any, words: str, level: str) -> None:
    result = check_episodes(Episodes.from_arrays(noise(n=300, n_timepoints=9), labels))
    assert words in messages(result, level)
    assert result.ok == (level != "error")


def test_lengths_that_are_short_or_differ_much_are_reported() -> None:
    assert "lengths from 5 to 40 points" in messages(checked(noise(), lengths=[5] + [40] * 29), "info")
    assert "has 7 points, but training needs 8" in messages(checked(noise(n_timepoints=7)), "warning")
    assert checked(noise(n_timepoints=8)).findings == ()


def test_the_server_machines_have_no_error(smd_folder: Path) -> None:
    result = check_episodes(load_episodes(smd_folder))
    assert (result.episodes, result.anomalous, result.ok) == (949, 289, True)
    assert result.constant_sensors == ("total_mem",)


def test_slower_episodes_are_named_and_have_no_gaps() -> None:
    values = noise(n=12, n_sensors=2, n_timepoints=60)
    values[::3, :, np.arange(60) % 2 > 0] = np.nan
    values[1, :, 7] = np.nan
    result = checked(values)
    assert result.slower_episodes == {f"episode_{i}": 2 for i in (0, 3, 6, 9)}
    assert result.gaps == {"episode_1": 1}
    assert "lower rate than other episodes: episode_0 (2 times)" in messages(result, "warning")
    assert "many missing values" not in messages(result, "warning")
    with pytest.warns(UserWarning, match="lower rate than other episodes: episode_0"):
        SensorScaler.fit(Episodes.from_arrays(values))


def test_every_second_point_missing_in_all_episodes_is_a_gap() -> None:
    values = noise(n=4, n_sensors=2, n_timepoints=60)
    values[:3, :, 1::2] = np.nan
    values[3] = np.nan  # it has no rate
    result = checked(values)
    assert result.slower_episodes == {}
    assert list(result.gaps.values()) == [30, 30, 30, 60]
    assert "many missing values" in messages(result, "warning")
    assert "rate" not in messages(result, "warning")
    with pytest.warns(UserWarning, match="training episodes without any value: episode_3;") as warned:
        SensorScaler.fit(Episodes.from_arrays(values))
    assert len(warned) == 1


def test_absurd_values_are_found_with_an_example_and_a_remedy() -> None:
    values = noise()
    values[4, 1, 7], values[9, 1, 3] = 1e6, -1e30
    result = checked(values)
    assert list(result.far_values) == ["sensor_2"]
    far = result.far_values["sensor_2"]
    assert (far.episodes, far.example, round(far.value / 1e30, 6)) == (2, "episode_9", -1)
    assert "sensor_2 (-1e+30 in episode_9; in 2 episodes)" in messages(result, "warning")
    assert "clip_beyond=100" in messages(result, "warning")


def test_absurd_values_are_found_in_any_batch() -> None:
    values = noise(n=300)
    values[299, 0, 39] = 1e6
    episodes = Episodes.from_arrays(values)
    assert check_episodes(episodes, batch_bytes=1000).far_values == check_episodes(episodes).far_values != {}


def test_counter_is_no_sensor() -> None:
    values = noise()
    values[:, 2] = np.arange(40)
    assert checked(values).counters == ("sensor_3",)
    assert "name it (load_episodes(…, time_column='sensor_3'))" in messages(checked(values), "warning")
    assert "time_column" not in messages(checked(values, interval=2.0), "warning")
    values[7, 2, 20] = 0  # falls once
    assert checked(values).counters == ()


def test_recordings_with_an_anomaly_each_have_to_be_cut() -> None:
    values = np.random.default_rng(0).standard_normal((6, 2, 2000)).astype(np.float32)
    episodes = Episodes.from_arrays(values, np.ones(6, dtype=int), faults=[(Fault(500, 540),)] * 6)
    result = check_episodes(episodes)
    assert "training also needs normal episodes; cut the recordings (load_episodes(…, length=100))" in messages(
        result, "error"
    )
    assert "length=" not in messages(result, "info")


# ---- recordings that are long, or labelled in parts -------------------------------------------------------------


def findings(episodes: Episodes) -> str:
    """All findings of a check, on lines."""
    with settings_as_options():
        return "\n".join(f"{one.level}: {one.message}" for one in check_episodes(episodes).findings)


def noisy(n: int, length: int, **known: Any) -> Episodes:
    """Episodes of one noisy sensor, half of them anomalous."""
    return Episodes.from_arrays(noise(n, 1, length), np.arange(n) % 2, **known)


def test_long_episodes_get_a_length_a_resampling_and_the_time_of_training() -> None:
    found = findings(noisy(20, 20_000, interval=0.0005, time_unit="s"))
    assert "episodes of 20000 points (median) are too long for effective training: 200 segments of 100 points" in found
    assert "cut them into 400 pieces (--length 1000, less than a minute" in found
    assert (
        "make them coarser (--resample 0.01s and --resample-by mean,rms,peak, less than a minute)" in found
    )  # 20 points each
    assert "train with --segment-length 100" in found
    assert "--resample 20, " in findings(noisy(20, 20_000))  # without time, in points
    assert "--resample 20s, " in findings(noisy(20, 20_000, interval=1.0, time_unit="s"))  # slow: the mean suffices


@pytest.mark.parametrize(
    ("shorter", "expected", "resampled"),
    [
        (700, "(--length 500, ", True),  # all recordings can be cut
        (100, "(--length 100, ", False),  # resampling would leave five points
        (20, "that would be too short)", False),
    ],
)
def test_suggestions_suit_the_shortest_recording(shorter: int, expected: str, resampled: bool) -> None:
    recordings = noisy(20, 20_000, lengths=[shorter, *[20_000] * 19])
    found = findings(recordings)
    assert expected in found
    assert ("--resample" in found) == resampled
    length = int(re.search(r"--length (\d+)", found)[1])  # type: ignore[index]
    pieces = cut(recordings, length)
    assert f"into {len(pieces)} pieces" in found
    assert ("episode_0@0" in pieces.ids) == (shorter >= length)
    assert int(re.search(r"--segment-length (\d+)", found)[1]) <= length  # type: ignore[index]


def test_suggested_length_says_if_a_class_remains_too_small() -> None:
    one = Episodes.from_arrays(noise(1, 1, 2000), [1], faults=[[Fault(100, 150)]])
    assert "1 anomalous and 19 normal pieces, still too few" in findings(one)


def test_time_without_a_unit_has_a_remedy() -> None:
    assert "(a step of 0.5): write it into the header" in findings(noisy(20, 50, interval=0.5))
    assert "unit of the time" not in findings(noisy(20, 50, interval=0.5, time_unit="s"))


@pytest.mark.parametrize("length", [500, 5000])
def test_episodes_of_a_good_length_get_no_suggestion(length: int) -> None:
    assert "too long" not in findings(noisy(20, length))


def test_estimate_grows_with_episodes_segments_and_sensors() -> None:
    # 100 epochs of 70 % of 60 episodes, of 10 segments and 4 sensors
    assert estimate_training_seconds(60, 10, 4) == pytest.approx(100 * 42 * 10 * 4 * SECONDS_PER_CELL)
    assert estimate_training_seconds(60, 20, 8) == pytest.approx(4 * estimate_training_seconds(60, 10, 4))


def test_labels_that_change_within_recordings_suggest_a_length() -> None:
    faults = [[Fault(100, 150), Fault(400, 460)] if row % 2 else [] for row in range(20)]
    found = findings(noisy(20, 2000, faults=faults))
    assert "info: labels change within 10 recordings: episode_1," in found
    assert "cut them (--length 200)" in found  # 2 × 55, rounded up
    assert "labels change" not in findings(noisy(20, 500, faults=faults))
    both = findings(noisy(20, 8000, faults=faults))
    assert both.count("(--length 200") == 2
    assert "--segment-length 20" in both
    whole = [[Fault(0, 2000)] if row % 2 else [] for row in range(20)]
    assert "labels change" not in findings(noisy(20, 2000, faults=whole))
