"""Read every import of the package: at the top, inside functions, under TYPE_CHECKING and by string."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dfstrans"

# From upstream to downstream: a part may import the parts of earlier rows only.
ORDER = (
    ("errors", "progress"),
    ("files", "settings"),
    ("data",),
    ("model",),
    ("training",),
    ("diagnosis",),
    ("detectors",),
    ("report",),
    ("deploy",),
    ("runtime",),
    ("scale",),
    ("service",),
    ("lab.elevator",),
    ("lab.injection",),
    ("lab.rivals",),
    ("lab.compare",),
    ("lab.paper",),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}


class Import(NamedTuple):
    """One module imports another."""

    module: str
    target: str
    at_load: bool  # False inside a function, under TYPE_CHECKING, or by string


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(source: Path = SOURCE) -> list[Import]:
    """Every import in a package; `from package import module` is an import of that module."""
    files = modules(source)
    found = []
    for module, file in files.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node, at_load in _walk(tree, at_load=True):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                base = node.module or ""
                if node.level:
                    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
                    base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
                names = [f"{base}.{alias.name}" for alias in node.names]
                targets = [name if name in files else base for name in names]
            found += [Import(module, target, at_load) for target in targets]
        found += [Import(module, name, False) for name in _named_in_strings(tree, files) if name != module]
    return found


def _walk(node: ast.AST, at_load: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_load
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _walk(child, at_load=False)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, at_load and not inside)


def _named_in_strings(tree: ast.AST, files: dict[str, Path]) -> set[str]:
    """Modules that a whole string constant names, as `import_module` would be given them."""
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text for text in texts if "." in text and text in files}


def part(module: str) -> str:
    """The part that a module belongs to.

    >>> part("dfstrans.data.readers.tables"), part("dfstrans.lab.paper.fourier"), part("dfstrans")
    ('data', 'lab.paper', '')
    """
    names = module.split(".")[1:]
    if names[:1] == ["lab"]:
        return ".".join(names[:2])
    return names[0] if names else ""


def part_graph(found: list[Import]) -> dict[str, set[str]]:
    """Which parts each part imports, however it does so."""
    edges: dict[str, set[str]] = {name: set() for name in RANK}
    for module, target, _ in found:
        if part(module) in RANK and part(target) in RANK and part(module) != part(target):
            edges[part(module)].add(part(target))
    return edges


def module_graph(found: list[Import], *, at_load_only: bool) -> dict[str, set[str]]:
    """Which modules each module imports."""
    edges: dict[str, set[str]] = {}
    for module, target, at_load in found:
        if at_load or not at_load_only:
            edges.setdefault(module, set()).add(target)
    return edges


def reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Everything a module imports, itself or through others; loading a.b.c loads a and a.b as well."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        parts = waiting.pop().split(".")
        for name in (".".join(parts[: i + 1]) for i in range(len(parts))):
            if name not in seen:
                seen.add(name)
                waiting += edges.get(name, ())
    return seen


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """The nodes of one cycle, or nothing."""
    state: dict[str, int] = {}

    def visit(node: str, path: list[str]) -> list[str]:
        state[node] = 1
        for target in sorted(edges.get(node, ())):
            if state.get(target) == 1:
                return [*path[path.index(target) :], target]
            if target not in state and (found := visit(target, [*path, target])):
                return found
        state[node] = 2
        return []

    for node in sorted(edges):
        if node not in state and (found := visit(node, [node])):
            return found
    return []
