"""The paper's figures of positional encodings."""

from __future__ import annotations

from dfstrans.lab.paper import encoding_figures as draw
from dfstrans.lab.paper.encoding_study import study_encodings
from dfstrans.lab.paper.request import Outcome, Request
from dfstrans.report.print_figures import write_figures


def encodings(request: Request) -> Outcome:
    """Draw what the encodings hold and keep."""
    study = study_encodings()
    drawings = {
        "fig:frequencyRatio": lambda: draw.print_distribution(study.distributions),
        "fig:reconstruction_comparison": lambda: draw.print_reconstruction(
            study.reconstructions, study.positions, study.segments
        ),
        "fig:pe_comparisons": lambda: draw.print_images(study.encodings),
    }
    name = request.target.replace(":", "_")
    written = write_figures(request.out, {name: drawings[request.target]}, ("pdf", "svg", "png"))
    return Outcome(content=study.to_dict(), written=written)
