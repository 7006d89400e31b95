"""The documents are true: examples run, links lead somewhere, named options exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dfstrans.diagnosis.known_faults import Resemblance
from dfstrans.lab.elevator.fleet import RANGES
from dfstrans.lab.elevator.sensors import SENSORS, Sensor
from dfstrans.lab.elevator.settings import SEVERITIES, SimulationSettings
from dfstrans.lab.injection.settings import KINDS, InjectionSettings
from dfstrans.training.evaluation import ChanceCheck
from tests.report.drawn import made_diagnosis

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_ten_lines_of_the_readme_run_and_end_in_a_good_detector(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    code += "\nassert detector.evaluate(test).f1 >= 0.9\n"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "model" / "model.json").exists()


@pytest.mark.parametrize("example", sorted((ROOT / "examples").iterdir()), ids=lambda path: path.name)
def test_an_example_runs(example: Path) -> None:
    runner = sys.executable if example.suffix == ".py" else "sh"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([runner, str(example)], check=True, env=environment, capture_output=True)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target, _, heading in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", document.read_text()):
        if not target.startswith("http"):
            place = document.parent / target if target else document
            assert place.exists(), target
            assert not heading or heading in headings(place), f"{target}#{heading}"


def headings(document: Path) -> set[str]:
    """What a link to a heading of a document is called: in small letters, with - for spaces and no punctuation."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_named_in_documents_exist(document: Path) -> None:
    from dfstrans.data.readers.opening import ReadOptions
    from dfstrans.settings import NetworkSettings, TrainingSettings

    settings = (NetworkSettings, TrainingSettings, ReadOptions, SimulationSettings, InjectionSettings)
    known = {"--" + name.replace("_", "-") for each in settings for name in each.model_fields}
    for source in (ROOT / "src" / "dfstrans" / "cli").glob("*.py"):
        text = source.read_text()
        known |= set(re.findall(r'"(--[a-z-]+)"', text))
        known |= {"--" + name for name in re.findall(r"^    ([a-z]+): Annotated", text, flags=re.MULTILINE)}
    known |= {"--sensors", "--segments", "--split", "--part", "--help", "--seed", "--constraint", "--no-deps"}
    known |= {"--jobs", "--threads"}
    for benchmark in (ROOT / "benchmarks").glob("*.py"):
        known |= set(re.findall(r'"(--[a-z-]+)"', benchmark.read_text()))
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", document.read_text()))
    assert used <= known, used - known


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


# ---- numbers of the elevator ----------------------------------------------------------------------------------------

FACTORS = {"MN": 1e6, "MN/m": 1e6, "kN/m": 1e3, "mH": 1e-3, "ms": 1e-3}


def elevator_row(name: str) -> list[str]:
    """The cells of the one table row of docs/elevator.md whose first cell names something."""
    lines = (ROOT / "docs" / "elevator.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    (row,) = (row for row in rows if f"`{name}`" in row[0].split(", "))
    return row


def numbers(cell: str) -> tuple[float, ...]:
    """What a cell says: "0.8 – 1.1", "0 – 2π", "0.55 – 4 mm"."""
    return tuple(6.283185 if part == "2π" else float(part.removesuffix(" mm")) for part in cell.split(" – "))


@pytest.mark.parametrize("name", RANGES)
def test_every_range_of_the_fleet_stands_in_the_document(name: str) -> None:
    _, _, bounds, unit = elevator_row(name)
    factor = FACTORS.get(unit, 1)
    assert [bound * factor for bound in numbers(bounds)] == pytest.approx(RANGES[name], rel=1e-6)


@pytest.mark.parametrize("name", SEVERITIES)
def test_every_severity_stands_in_the_document(name: str) -> None:
    assert numbers(elevator_row(name)[1]) == SEVERITIES[name]


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: sensor.name)
def test_every_sensor_stands_in_the_document(sensor: Sensor) -> None:
    _, unit, _, *figures = elevator_row(sensor.name)
    assert unit == sensor.unit
    assert tuple(map(float, figures)) == (sensor.noise, sensor.resolution, sensor.gain_error, sensor.offset_error)


# ---- numbers of planted faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_planted_fault_stands_in_the_document_with_its_unit_and_strengths(kind: str) -> None:
    lines = (ROOT / "docs" / "injection.md").read_text().splitlines()
    (row,) = (line for line in lines if line.startswith(f"| `{kind}` |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:] == [KINDS[kind].unit, ", ".join(f"{value:g}" for value in KINDS[kind].strengths)]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no history here: run in a clone of the repository")
def test_commits_named_with_figures_are_in_the_history() -> None:
    known = subprocess.run(
        ["git", "rev-list", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    results = sorted((ROOT / "results").glob("*.json*"))
    for document in [*DOCUMENTS, *results]:
        for name in re.findall(r'commit"?:? "?`?([0-9a-f]{7,40})\b', document.read_text(encoding="utf-8")):
            assert any(commit.startswith(name) for commit in known), (document.name, name)


def test_every_key_and_column_of_a_diagnosis_is_documented() -> None:
    diagnosis, _ = made_diagnosis()
    diagnosis = replace(
        diagnosis, resembles=(Resemblance("bump", 1, 2),), chance_check=ChanceCheck(True, "good", "why")
    )
    content, columns = diagnosis.to_dict(), set(diagnosis.to_frame().columns)
    keys = set(content)
    for value in content.values():
        for inner in value if isinstance(value, list) else [value]:
            keys |= set(inner) if isinstance(inner, dict) else set()
    text = (ROOT / "docs" / "diagnosis-fields.md").read_text()
    json_part, csv_part = text.split("## CSV")
    assert keys <= {name.split(".")[-1] for name in re.findall(r"`([a-z_.\[\]]+)`", json_part)}
    assert columns <= set(re.findall(r"`([a-z_]+)`", csv_part))
    assert len(content["interpretation"][0]["changed_pairs"]) > 0  # or the test would see less than there is
