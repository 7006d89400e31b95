"""Sphinx configuration: pages are Markdown (MyST); the reference is generated from the code before each build."""

import importlib.metadata
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from dfstrans.settings import NetworkSettings, TrainingSettings  # noqa: E402
from tools.reference import command_reference, settings_reference  # noqa: E402

project = "dfstrans"
author = "The dfstrans developers"
release = importlib.metadata.version("dfstrans")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"dfstrans {release}"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"

for name, text in {
    "cli": command_reference(),
    "settings": settings_reference("Settings", NetworkSettings, TrainingSettings),
}.items():
    (HERE / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
