"""Imports point downstream only, and what is light stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dfstrans
import dfstrans.data

SOURCE = Path(dfstrans.__file__).parent

DETECTORS = {"estimator", "network_estimator", "diagnoser", "baselines"}

# part of the package → the parts it may not know of, not even in a function
FORBIDDEN = {
    "errors": {"config", "data", "model", "training", "diagnosis", "report", "cli", "artifact"} | DETECTORS,
    "files": {"config", "data", "model", "training", "diagnosis", "report", "cli", "artifact"} | DETECTORS,
    "config": {"data", "model", "training", "diagnosis", "report", "cli", "artifact"} | DETECTORS,
    "model": {"data", "training", "diagnosis", "report", "cli", "artifact", "service"} | DETECTORS,
    "data": {"model", "training", "diagnosis", "report", "cli", "artifact", "service"} | DETECTORS,
    "training": {"diagnosis", "report", "cli", "artifact", "service"} | DETECTORS,
    "fourier": {"training", "diagnosis", "report", "cli", "artifact", "service"} | DETECTORS,
    "estimator": {"diagnosis", "network_estimator", "diagnoser", "baselines", "report", "cli", "service"},
    "network_estimator": {"diagnosis", "diagnoser", "baselines", "report", "cli", "service"},
    "baselines": {"diagnosis", "diagnoser", "report", "cli", "service"},
    "diagnosis": {"training", "report", "cli", "service"},
    "diagnoser": {"report", "cli", "service", "experiments"},
    "experiments": {"report", "cli", "service"},
    "artifact": {"report", "cli", "service"} | DETECTORS,
    "report": {"model", "training", "cli", "service"},
    "injection": {"model", "report", "cli", "service"},
    "inputs": {"training", "diagnosis", "report", "cli", "artifact", "service"} | DETECTORS,
    "runtime": {"training", "diagnosis", "report", "cli", "artifact", "service"} | DETECTORS,
}
WITHOUT_TORCH = {
    "errors",
    "files",
    "config",
    "data",
    "elevator",
    "fourier",
    "model_card",
    "cli",
    "inputs",
    "onnx_file",
    "runtime",
}


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
    """`data` of dfstrans.data.readers.hdf5; `cli` also of dfstrans.cli_train."""
    name = [*module.split("."), ""][1]
    return "cli" if name.startswith("cli_") else name


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


@pytest.mark.parametrize("upstream", FORBIDDEN)
def test_imports_point_downstream_only(upstream: str, found: list[Import]) -> None:
    wrong = [
        f"{m} imports {t}"
        for m, t, _ in found
        if part(m) == upstream and part(t) in FORBIDDEN[upstream] and t.startswith("dfstrans")
    ]
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
    assert "torch" in reached("dfstrans.diagnoser", edges)
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


def test_reports_do_not_load_torch(found: list[Import]) -> None:
    edges = graph(found, at_load_only=True)
    assert not [m for m in modules(SOURCE) if part(m) == "report" and "torch" in reached(m, edges)]


def test_no_module_is_named_utils() -> None:
    names = {piece for module in modules(SOURCE) for piece in module.split(".")}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_every_module_says_what_it_is_for() -> None:
    assert not [m for m, file in modules(SOURCE).items() if not ast.get_docstring(ast.parse(file.read_text("utf-8")))]


def loaded_by(module: str) -> set[str]:
    """The packages that importing a module loads, in a fresh interpreter."""
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def test_recordings_in_memory_need_nothing_but_numpy() -> None:
    loaded = loaded_by("dfstrans.inputs")
    assert "numpy" in loaded
    assert not loaded & {"torch", "sklearn", "scipy", "pandas", "pyarrow", "h5py", "pydantic"}


@pytest.mark.parametrize("module", ["dfstrans", "dfstrans.cli", "dfstrans.data"])
def test_importing_what_the_help_needs_loads_neither_torch_nor_lightning(module: str) -> None:
    loaded = loaded_by(module)
    assert "dfstrans" in loaded
    assert not loaded & {"torch", "lightning", "pytorch_lightning"}


def test_a_listing_of_a_package_has_the_names_that_are_imported_on_use() -> None:
    for package in (dfstrans, dfstrans.data):
        assert set(package.__all__) <= set(dir(package))
