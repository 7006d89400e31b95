"""Draw the packages and their imports as docs/images/packages.svg: `make graph`."""

from __future__ import annotations

from pathlib import Path

from tools.imports import SOURCE, imports, part_graph

TARGET = SOURCE.parents[1] / "docs" / "images" / "packages.svg"
WIDTH, HEIGHT = 130, 32  # of a box
# Centres of the boxes; a package that is missing here makes the drawing fail.
PLACES = {
    "cli": (0, 0),
    "runtime": (-190, 60),
    "scale": (-50, 110),
    "service": (-50, 60),
    "deploy": (-190, 180),
    "report": (95, 310),
    "detectors": (-95, 310),
    "diagnosis": (0, 370),
    "training": (0, 430),
    "model": (0, 490),
    "data": (0, 550),
    "settings": (-95, 610),
    "files": (95, 610),
    "errors": (0, 670),
    "progress": (190, 490),
    "lab.paper": (260, 70),
    "lab.compare": (180, 130),
    "lab.injection": (340, 190),
    "lab.rivals": (180, 190),
    "lab.elevator": (340, 130),
}
FRAME = (105, 45, 310, 170)  # around the lab: x, y, width, height
ROOT_MODULES = ("errors", "progress", "files", "settings", "runtime")


def is_lab(name: str) -> bool:
    """Say whether a part belongs to the lab."""
    return name.startswith("lab.")


def without_shortcuts(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each arrow that a longer path implies, so that the drawing stays readable."""

    def below(node: str) -> set[str]:
        return edges[node].union(*(below(target) for target in edges[node]))

    return {
        node: {target for target in targets if not any(target in below(other) for other in targets - {target})}
        for node, targets in edges.items()
    }


def arrows(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """What to draw: arrows inside the lab, and those of the other packages with the lab as one of them."""
    inside = {node: {t for t in targets if is_lab(t)} for node, targets in edges.items() if is_lab(node)}
    outside: dict[str, set[str]] = {}
    for node, targets in edges.items():
        name = "lab" if is_lab(node) else node
        outside.setdefault(name, set()).update({"lab" if is_lab(t) else t for t in targets} - {name})
    return [
        (node, target)
        for part in (inside, outside)
        for node, targets in sorted(without_shortcuts(part).items())
        for target in sorted(targets)
    ]


def draw(edges: dict[str, set[str]]) -> str:
    """The graph as SVG, with an arrow from each package to those it imports."""
    x, y, width, height = FRAME
    places = {**PLACES, "lab": (x + width / 2, y + height / 2)}
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-270 -25 700 725" font-family="sans-serif" font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>',
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="#fbf8f1" stroke="#bba"/>'
        f'<text x="{x + 10}" y="{y + 20}" fill="#776">lab</text>',
    ]
    for node, target in arrows(edges):
        (x0, y0), (x1, y1) = places[node], places[target]
        start, end = _side(node, y0, down=True), _side(target, y1, down=False)
        parts.append(f'<path d="M{x0:g},{start:g} L{x1:g},{end:g}" stroke="#99a" marker-end="url(#tip)"/>')
    for name in edges:
        x, y = PLACES[name]
        colour = "#f6efe2" if is_lab(name) else "#eef1f5" if name in ROOT_MODULES else "#e2eef6"
        parts.append(
            f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" '
            f'fill="{colour}" stroke="#667"/><text x="{x:g}" y="{y + 5:g}" text-anchor="middle">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _side(name: str, y: float, *, down: bool) -> float:
    """Where an arrow leaves the lower edge of a box, or meets the upper one."""
    half = (FRAME[3] if name == "lab" else HEIGHT) / 2
    return y + half if down else y - half


def main(target: Path = TARGET) -> None:
    """Write the drawing."""
    target.write_text(draw(part_graph(imports())), encoding="utf-8")
    print(target.relative_to(SOURCE.parents[1]))


if __name__ == "__main__":
    main()
