"""Print the size of the code, part by part: `make size`."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tools.imports import SOURCE, part

ROOT = SOURCE.parents[1]
GROUPS = ("product", "lab", "tests")


def lines(file: Path) -> int:
    """Count the lines of a file."""
    return len(file.read_text(encoding="utf-8").splitlines())


def group(file: Path) -> str:
    """Say whether a file belongs to the product, the lab or the tests."""
    if not file.is_relative_to(SOURCE):
        return "tests"
    return "lab" if file.is_relative_to(SOURCE / "lab") else "product"


def row(name: str, sizes: list[int]) -> str:
    """Format one row of the table."""
    return f"{name:<14}{len(sizes):>6}{sum(sizes):>8}{median(sizes):>8.0f}{max(sizes):>9}"


def main() -> None:
    """Print files, lines, the median file and the longest one of every part and group."""
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    sizes = {file: lines(file) for file in files}
    parts: dict[str, list[int]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
        name = part(module) if file.parent != SOURCE else "(root)"
        parts.setdefault(name.removesuffix(".__init__"), []).append(sizes[file])
    print(f"{'part':<14}{'files':>6}{'lines':>8}{'median':>8}{'longest':>9}")
    for name, found in parts.items():
        print(row(name, found))
    print()
    for name in GROUPS:
        print(row(name, [size for file, size in sizes.items() if group(file) == name]))


if __name__ == "__main__":
    main()
