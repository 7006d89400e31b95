"""Imports point downstream only, and what is light stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dfstrans
from dfstrans.cli.app import COMMANDS
from tools.draw_packages import TARGET, draw
from tools.imports import RANK, SOURCE, Import, cycle, imports, module_graph, modules, part, part_graph, reached
from tools.size import group, lines

APART = {("report", "detectors"), ("deploy", "report")}
WITHOUT_TORCH = {"errors", "files", "progress", "settings", "data", "report", "runtime"}


# ---- the tools of this test can fail ------------------------------------------------------------------------------


def test_import_scanner_finds_imports(tmp_path: Path) -> None:
    package = tmp_path / "toy"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n")
    (package / "a.py").write_text("from toy import b\nfrom toy.inner import thing\n")
    (package / "b.py").write_text("def f():\n    import lightning.pytorch as pl\n    from . import a\n")
    (package / "inner" / "__init__.py").write_text("try:\n    from .c import thing\nexcept ImportError:\n    pass\n")
    (package / "inner" / "c.py").write_text("import numpy.linalg\nNAMED = 'toy.a'\n")
    found = imports(package)
    assert set(found) == {
        ("toy", "typing", True),
        ("toy", "torch", False),
        ("toy.a", "toy.b", True),
        ("toy.a", "toy.inner", True),
        ("toy.b", "lightning.pytorch", False),
        ("toy.b", "toy.a", False),
        ("toy.inner", "toy.inner.c", True),
        ("toy.inner.c", "numpy.linalg", True),
        ("toy.inner.c", "toy.a", False),
    }
    at_load, whole = module_graph(found, at_load_only=True), module_graph(found, at_load_only=False)
    assert {"numpy", "numpy.linalg", "toy.b"} <= reached("toy.a", at_load)
    assert "lightning" not in reached("toy.a", at_load)
    assert "lightning" in reached("toy.a", whole)
    assert cycle(at_load) == []
    assert cycle(whole) == ["toy.a", "toy.b", "toy.a"]


# ---- the architecture ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> list[Import]:
    return imports()


def test_imports_point_upstream_only(found: list[Import]) -> None:
    inside = [(m, t) for m, t, _ in found if t.startswith("dfstrans") and part(m) != part(t) and part(m)]
    assert inside
    unknown = {part(m) for pair in inside for m in pair} - {*RANK, "__main__", "", "lab"}
    assert not unknown
    wrong = [
        f"{m} imports {t}"
        for m, t in inside
        if part(m) in RANK and part(t) in RANK and (RANK[part(t)] >= RANK[part(m)] or (part(m), part(t)) in APART)
    ]
    assert not wrong


def test_only_the_command_line_knows_the_lab(found: list[Import]) -> None:
    users = {part(m).split(".")[0] for m, t, _ in found if t.startswith("dfstrans.lab")}
    assert users == {"lab", "cli"}


def test_packages_have_no_cycle(found: list[Import]) -> None:
    assert cycle(part_graph(found)) == []


def test_drawing_of_the_packages_matches_the_imports(found: list[Import]) -> None:
    assert TARGET.read_text(encoding="utf-8") == draw(part_graph(found)), "make graph draws it"


def test_there_is_no_import_cycle_even_through_functions(found: list[Import]) -> None:
    edges = module_graph([one for one in found if one[0] != "dfstrans"], at_load_only=False)
    assert cycle(edges) == []


def test_lightning_is_imported_by_training_only(found: list[Import]) -> None:
    importers = {m for m, t, _ in found if t.split(".")[0] in ("lightning", "pytorch_lightning")}
    assert importers
    assert {part(module) for module in importers} == {"training"}


def test_other_packages_do_not_import_lightning(found: list[Import]) -> None:
    edges = module_graph(found, at_load_only=True)
    assert "torch" in reached("dfstrans.detectors.diagnoser", edges)
    heavy = [m for m in modules() if part(m) != "training" and "lightning" in reached(m, edges)]
    assert not heavy


def test_numeric_and_drawing_modules_do_not_import_torch(found: list[Import]) -> None:
    edges = module_graph(found, at_load_only=True)
    assert "torch" in reached("dfstrans.model.network", edges)
    heavy = [m for m in modules() if part(m) in WITHOUT_TORCH and "torch" in reached(m, edges)]
    assert not heavy


def test_reports_never_see_a_tensor(found: list[Import]) -> None:
    of_reports = [(m, t) for m, t, _ in found if part(m) == "report"]
    assert of_reports
    assert not [f"{m} imports {t}" for m, t in of_reports if t.split(".")[0] == "torch"]


def test_sizes_in_the_documents_are_about_right() -> None:
    text = (SOURCE.parents[1] / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    told = [int(number.replace(" ", "")) for number in re.findall(r"about (\d[\d ]+\d)", text)]
    files = [*SOURCE.rglob("*.py")]
    sizes = [sum(lines(file) for file in files if group(file) == name) for name in ("product", "lab")]
    assert told == pytest.approx(sizes, rel=0.1)


def test_no_module_is_named_utils() -> None:
    names = {piece for module in modules() for piece in module.split(".")}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_every_module_says_what_it_is_for() -> None:
    assert not [m for m, file in modules().items() if not ast.get_docstring(ast.parse(file.read_text("utf-8")))]


def loaded_by(code: str) -> set[str]:
    """The packages that some code loads, in a fresh interpreter."""
    tell = "import atexit, sys; atexit.register(lambda: print('LOADED', *{name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{tell}; {code}"], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split("LOADED")[-1].split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import dfstrans", {"torch", "lightning", "plotly", "pyarrow", "pandas", "sklearn"}),
        ("import dfstrans.data", {"torch", "lightning", "plotly", "sklearn"}),
        ("import dfstrans.runtime", {"torch", "lightning", "plotly", "sklearn"}),
        (
            "import sys; from dfstrans.cli.app import main; sys.argv = ['dfstrans', '--help']; main()",
            {"torch", "lightning", "plotly", "pyarrow", "pandas", "sklearn", "numba"},
        ),
    ],
)
def test_quick_imports_load_no_heavy_library(code: str, absent: set[str]) -> None:
    loaded = loaded_by(code)
    assert "dfstrans" in loaded
    assert not loaded & absent


@pytest.mark.parametrize(
    "words",
    [
        "data check . --no-such-option",
        "train . --out model --no-such-option",
        "train . --out model --heads 4",
        "train . --out model --epochs many",
        "train . --out model --model no-such-detector",
        "train no-such-file --out model",
        "compare . --out results --models no-such-model",
        *(f"{command} --no-such-option" for command in COMMANDS),
        "reproduce no-such-label",
        "diagnose no-such-model no-such-file",
    ],
)
def test_wrong_command_line_is_refused_before_slow_libraries_load(words: str) -> None:
    refused = "import sys\nfrom dfstrans.cli.app import main\ntry: main()\nexcept SystemExit as stopped:"
    loaded = loaded_by(f"sys.argv = {['dfstrans', *words.split()]}\n{refused} assert stopped.code == 2")
    assert "dfstrans" in loaded
    simulator = {"numba"} if words.startswith(("simulate", "reproduce")) else set()  # it loads in half a second
    assert not loaded & {"torch", "lightning", "plotly", "sklearn", "numba"} - simulator


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        ("diagnose model data --figures folder", "matplotlib", "paper"),
        ("encoding --out folder", "matplotlib", "paper"),
        ("export model --format onnx", "onnxruntime", "onnx"),
        ("score model data --out results", "distributed", "scale"),
        ("compare . --out results --models minirocket", "aeon", "rivals"),
        ("train data --out new", "nptdms", "tdms"),
    ],
)
def test_missing_extra_is_named_before_slow_libraries_load(
    tmp_path: Path, words: str, package: str, extra: str
) -> None:
    (tmp_path / "a.tdms").write_bytes(b"a recording")
    there = [str(tmp_path) if word in ("model", "data", ".") else word for word in words.split()]
    refused = f"import sys\nsys.modules['{package}'] = None\nfrom dfstrans.cli.app import main\n"
    refused += f"sys.argv = {['dfstrans', *there]}\nsys.stderr = sys.stdout\ntry: main()\nexcept SystemExit: pass"
    done = subprocess.run([sys.executable, "-c", refused + "\nprint(*sys.modules)"], capture_output=True, text=True)
    assert f"pip install 'dfstrans[{extra}]'" in done.stdout
    assert "torch" not in done.stdout.split()


def test_dir_lists_lazily_imported_names() -> None:
    assert set(dfstrans.__all__) <= set(dir(dfstrans))
    assert all(getattr(dfstrans, name) for name in dfstrans.__all__)
