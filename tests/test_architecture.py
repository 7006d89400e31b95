"""Imports point downstream only, and what is light stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dfstrans

SOURCE = Path(dfstrans.__file__).parent

# From upstream to downstream: a part may import those before it, never one after it.
ORDER = (
    ("errors", "progress"),
    ("files",),
    ("settings",),
    ("data",),
    ("model",),
    ("training",),
    ("diagnosis",),
    ("detectors",),
    ("report",),
    ("deploy",),
    ("runtime",),
    ("lab.elevator",),
    ("lab.injection",),
    ("lab.rivals",),
    ("lab.compare",),
    ("lab.paper",),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
APART = {("report", "detectors"), ("deploy", "report")}
WITHOUT_TORCH = {"errors", "files", "progress", "settings", "data", "report", "runtime"}


class Import(tuple[str, str, bool]):
    """(importing module, imported name, whether it happens when the importing module is loaded)."""

    __slots__ = ()


def modules(source: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(source: Path) -> list[Import]:
    """Every import in a package; one of a package's name that is a module is an import of that module."""
    files = modules(source)
    found = []
    for module, file in files.items():
        for node, at_load in _walk(ast.parse(file.read_text(encoding="utf-8")), at_load=True):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                base = node.module or ""
                if node.level:
                    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
                    base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
                names = [f"{base}.{alias.name}" for alias in node.names]
                targets = [name if name in files else base for name in names]
            found += [Import((module, target, at_load)) for target in targets]
    return found


def _walk(node: ast.AST, at_load: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_load
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _walk(child, at_load=False)
        else:
            lazy = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, at_load and not lazy)


def graph(found: list[Import], *, at_load_only: bool) -> dict[str, set[str]]:
    edges: dict[str, set[str]] = {}
    for module, target, at_load in found:
        if at_load or not at_load_only:
            edges.setdefault(module, set()).add(target)
    return edges


def reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Everything that a module imports, itself or through others; loading a.b.c loads a and a.b as well."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        parts = module.split(".")
        for name in (".".join(parts[: i + 1]) for i in range(len(parts))):
            if name not in seen:
                seen.add(name)
                waiting += edges.get(name, ())
    return seen


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules of one import cycle, or nothing."""
    state: dict[str, int] = {}

    def visit(module: str, path: list[str]) -> list[str]:
        state[module] = 1
        for target in sorted(edges.get(module, ())):
            if state.get(target) == 1:
                return [*path[path.index(target) :], target]
            if target not in state and (found := visit(target, [*path, target])):
                return found
        state[module] = 2
        return []

    for module in sorted(edges):
        if module not in state and (found := visit(module, [module])):
            return found
    return []


def part(module: str) -> str:
    """`data` of dfstrans.data.readers.hdf5, `lab.paper` of dfstrans.lab.paper.fourier, nothing of the root itself."""
    names = module.split(".")[1:]
    return ".".join(names[:2]) if names[:1] == ["lab"] else names[0] if names else ""


# ---- the tools of this test can fail ------------------------------------------------------------------------------


def test_the_reader_of_imports_sees_what_is_there(tmp_path: Path) -> None:
    package = tmp_path / "toy"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n")
    (package / "a.py").write_text("from toy import b\nfrom toy.inner import thing\n")
    (package / "b.py").write_text("def f():\n    import lightning.pytorch as pl\n    from . import a\n")
    (package / "inner" / "__init__.py").write_text("try:\n    from .c import thing\nexcept ImportError:\n    pass\n")
    (package / "inner" / "c.py").write_text("import numpy.linalg\n")
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
    }
    at_load, whole = graph(found, at_load_only=True), graph(found, at_load_only=False)
    assert {"numpy", "numpy.linalg", "toy.b"} <= reached("toy.a", at_load)
    assert "lightning" not in reached("toy.a", at_load)
    assert "lightning" in reached("toy.a", whole)
    assert cycle(at_load) == []
    assert cycle(whole) == ["toy.a", "toy.b", "toy.a"]


# ---- the architecture ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> list[Import]:
    return imports(SOURCE)


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


def test_no_module_of_the_product_is_named_in_a_string_upstream(found: list[Import]) -> None:
    wrong = []
    for module, file in modules(SOURCE).items():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = node.value if node.value in modules(SOURCE) and node.value != "dfstrans" else ""
                if named and part(module) in RANK and RANK.get(part(named), -1) > RANK[part(module)]:
                    wrong.append(f"{module} names {named}")
    assert not wrong


def test_there_is_no_import_cycle_even_through_functions(found: list[Import]) -> None:
    edges = graph([one for one in found if one[0] != "dfstrans"], at_load_only=False)
    assert cycle(edges) == []


def test_lightning_is_imported_by_training_only(found: list[Import]) -> None:
    importers = {m for m, t, _ in found if t.split(".")[0] in ("lightning", "pytorch_lightning")}
    assert importers
    assert {part(module) for module in importers} == {"training"}


def test_what_others_load_of_training_does_not_bring_lightning(found: list[Import]) -> None:
    edges = graph(found, at_load_only=True)
    assert "torch" in reached("dfstrans.detectors.diagnoser", edges)
    heavy = [m for m in modules(SOURCE) if part(m) != "training" and "lightning" in reached(m, edges)]
    assert not heavy


def test_torch_is_not_loaded_where_numbers_and_pictures_are_enough(found: list[Import]) -> None:
    edges = graph(found, at_load_only=True)
    assert "torch" in reached("dfstrans.model.network", edges)
    heavy = [m for m in modules(SOURCE) if part(m) in WITHOUT_TORCH and "torch" in reached(m, edges)]
    assert not heavy


def test_reports_never_see_a_tensor(found: list[Import]) -> None:
    of_reports = [(m, t) for m, t, _ in found if part(m) == "report"]
    assert of_reports
    assert not [f"{m} imports {t}" for m, t in of_reports if t.split(".")[0] == "torch"]


def test_no_module_is_named_utils() -> None:
    names = {piece for module in modules(SOURCE) for piece in module.split(".")}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_every_module_says_what_it_is_for() -> None:
    assert not [m for m, file in modules(SOURCE).items() if not ast.get_docstring(ast.parse(file.read_text("utf-8")))]


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
def test_what_must_be_quick_loads_nothing_heavy(code: str, absent: set[str]) -> None:
    loaded = loaded_by(code)
    assert "dfstrans" in loaded
    assert not loaded & absent


def test_a_listing_of_a_package_has_the_names_that_are_imported_on_use() -> None:
    assert set(dfstrans.__all__) <= set(dir(dfstrans))
    assert all(getattr(dfstrans, name) for name in dfstrans.__all__)
