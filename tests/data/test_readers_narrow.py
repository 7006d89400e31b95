from __future__ import annotations

from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from dfstrans import load_episodes
from dfstrans.errors import DfstransError
from tests.data.text_tables import from_text

NAN = float("nan")


def test_narrow_export_has_a_sensor_per_tag(tmp_path: Path) -> None:
    text = "time,tag,value\n0,a,1\n1,a,2\n2,a,3\n0,b,4\n2,b,6\n"
    episodes = from_text(tmp_path, text, length=3)
    assert episodes.sensors == ("a", "b")
    assert_array_equal(episodes.values, [[[1, 2, 3], [4, NAN, 6]]])


def test_files_of_a_folder_may_be_narrow(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.csv").write_text("Zeit,Sensor,Wert\n0,a,1\n0,b,2\n1,a,3\n1,b,4\n")
    named = {"time_column": "Zeit", "tag_column": "Sensor", "value_column": "Wert"}
    assert_array_equal(load_episodes(tmp_path, **named).values, [[[1, 3], [2, 4]]] * 2)


def test_bad_narrow_exports_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DfstransError, match=r"each tag once at each time .* got 1 repeated rows"):
        from_text(tmp_path, "time,tag,value\n0,a,1\n0,a,2\n1,a,2\n", length=2)
    with pytest.raises(DfstransError, match="expected a column 'sensor'"):
        from_text(tmp_path, "time,tag,value\n0,a,1\n", length=1, tag_column="sensor")
