"""Files written as text, and read."""

from __future__ import annotations

from pathlib import Path

from dfstrans.data.episodes import Episodes
from dfstrans.data.readers import load_episodes

PLAIN = "episode_id,time,a,b,label\n1,0,1.5,2,0\n1,1,2.5,3,0\n2,0,3.5,4,1\n2,1,4.5,5,1\n"


def from_text(folder: Path, text: str | bytes, name: str = "runs.csv", **options: object) -> Episodes:
    """The episodes of a file with this content."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_episodes(path, **options)


def write(folder: Path, **files: str) -> Path:
    """A folder with these .csv files, a bar for each line end."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text.replace("|", "\n") + "\n")
    return folder
