"""The documents are true: examples run, links lead somewhere, named options exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_ten_lines_of_the_readme_run(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "model" / "model.json").exists()


@pytest.mark.parametrize("example", sorted((ROOT / "examples").iterdir()), ids=lambda path: path.name)
def test_an_example_runs(example: Path) -> None:
    runner = sys.executable if example.suffix == ".py" else "sh"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([runner, str(example)], check=True, env=environment, capture_output=True)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_named_in_documents_exist(document: Path) -> None:
    from dfstrans.config import NetworkSettings, TrainingSettings
    from dfstrans.data.readers.options import ReadOptions

    fields = {**NetworkSettings.model_fields, **TrainingSettings.model_fields, **ReadOptions.model_fields}
    known = {"--" + name.replace("_", "-") for name in fields}
    source = (ROOT / "src" / "dfstrans" / "cli.py").read_text()
    known |= set(re.findall(r'"(--[a-z-]+)"', source)) | {"--sensors", "--segments", "--split", "--part", "--help"}
    known |= {"--seed", "--constraint"}
    for benchmark in (ROOT / "benchmarks").glob("*.py"):
        known |= set(re.findall(r'"(--[a-z-]+)"', benchmark.read_text()))
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", document.read_text()))
    assert used <= known, used - known


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
