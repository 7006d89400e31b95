"""Long recordings in tables and folders, cut into pieces: what is told of labels and gaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dfstrans import DfstransError, load_episodes
from dfstrans.data.episodes import Episodes
from dfstrans.data.readers.cutting import cut


def table(folder: Path, rows: list[str], header: str = "machine,time,a,label") -> Path:
    path = folder / "machines.csv"
    path.write_text("\n".join([header, *rows]))
    return path


@pytest.mark.parametrize("normal", ["", "0"])
def test_rows_without_a_label_are_not_given_that_of_others(tmp_path: Path, normal: str) -> None:
    rows = [f"m1,{t},{t},{1 if 4 <= t < 6 else normal}" for t in range(20)]
    rows += [f"m2,{t},{t},0" for t in range(20)]
    path = table(tmp_path, rows)
    if normal == "":
        with pytest.raises(DfstransError, match=r"a label in each row .* got rows without one in m1 \(18\); write 0"):
            load_episodes(path, id_column="machine", length=5)
        return
    episodes = load_episodes(path, id_column="machine", length=5)
    assert episodes.require_labels().tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_pieces_in_a_gap_are_left_out_and_counted(tmp_path: Path) -> None:
    times = [*range(10), *range(40, 50)]
    path = table(tmp_path, [f"m1,{t},{t % 7},{int(t == 45)}" for t in times])
    with pytest.warns(UserWarning, match="left out: 6 pieces of 10 without any value, in gaps"):
        episodes = load_episodes(path, id_column="machine", length=5)
    assert episodes.ids.tolist() == ["m1@0", "m1@5", "m1@40", "m1@45"]
    assert episodes.require_labels().tolist() == [0, 0, 0, 1]


def test_a_piece_with_a_single_value_stays() -> None:
    values = np.full((1, 2, 10), np.nan)
    values[0, 1, 7] = 3.0
    assert cut(Episodes.from_arrays(values, ids=["m"]), 5).ids.tolist() == ["m@5"]


def test_recordings_without_any_value_are_refused() -> None:
    with pytest.raises(DfstransError, match="expected recordings with values, got none in any of 2 pieces"):
        cut(Episodes.from_arrays(np.full((1, 2, 10), np.nan), ids=["m"]), 5)


def test_several_machines_in_one_table_are_told_how_to_be_kept_apart(tmp_path: Path) -> None:
    path = table(tmp_path, [f"m{m},{t},{t},{int(t == 3)}" for m in range(2) for t in range(10)])
    with pytest.raises(DfstransError, match=r"name the column that tells them apart.*id_column"):
        load_episodes(path, length=5)
    timeless = table(tmp_path, [f"m{m},{t},{int(t == 3)}" for m in range(2) for t in range(10)], "machine,a,label")
    with pytest.raises(DfstransError, match=r"is each group a recording\? then name its column \(id_column"):
        load_episodes(timeless, length=5)
