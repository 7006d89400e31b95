"""What of the paper can be reproduced, by the labels that it has there."""

from __future__ import annotations

from typing import Literal, NamedTuple

from dfstrans.errors import DfstransError, did_you_mean

Takes = Literal["seconds", "minutes to an hour", "hours to days", "nothing"]


class Target(NamedTuple):
    """A table or a figure."""

    what: str
    takes: Takes


DIAGNOSES: dict[str, Target] = {
    "fig:lsa": Target(
        "a journey over bumps: its signals, b^G, and B at two bumps and a quiet moment", "minutes to an hour"
    ),
    "fig:mix": Target("a journey with friction: its signals, A^G, a^G, B^G and b^G", "minutes to an hour"),
    "fig:lta": Target("when, for one sensor: a^(s) over journeys, faulty and normal", "minutes to an hour"),
    "fig:at_scores": Target("AT_k by k and kind of fault, with random and bottom weights", "minutes to an hour"),
}
"""Need a trained model."""
PARAMETERS: dict[str, Target] = {
    "tab:timeparams": Target("parameters, and training seconds per epoch (--counts-only: seconds)", "hours to days"),
    "tab:n_params_s": Target("parameters by number of sensors", "seconds"),
    "fig:n_param_s": Target("the same as a figure", "seconds"),
}
TARGETS: dict[str, Target] = {
    "tab:qresults": Target("detection: DFStrans and its rivals on four data sets", "hours to days"),
    "tab:qresults_pe": Target("detection: the vanilla and the faithful encoding", "hours to days"),
    "tab:linear_comp": Target("detection: how segments become vectors", "hours to days"),
    **PARAMETERS,
    "fig:frequencyRatio": Target("which frequencies the encodings hold", "seconds"),
    "fig:reconstruction_comparison": Target("what the encodings keep of positions", "seconds"),
    "fig:pe_comparisons": Target("the encodings as images", "seconds"),
    **DIAGNOSES,
    "ablation": Target("not of the paper: what each change to its training and network brings", "hours to days"),
}
PANELS: dict[str, tuple[str, ...]] = {
    "fig:lsa": ("fig:PAJ38", "fig:GSRPAJ38", "fig:lsa_t34", "fig:lsa_t58", "fig:lsa_t75"),
    "fig:mix": ("fig:mix1", "fig:mix2", "fig:mix3", "fig:mix4", "fig:mix5"),
    "fig:lta": ("fig:paj_ax_local", "fig:paj_ay_local", "fig:paj_id_local"),
    "fig:at_scores": ("fig:PAJ_AT", "fig:FJ_AT"),
    "fig:pe_comparisons": ("fig:vanilla_pe", "fig:dft_pe"),
}
"""Labels of parts of a figure, which come with the whole."""
NO_RESULT: dict[str, str] = {
    "fig:st_transformer": "drawing of the network, nothing to compute: see docs/architecture.md and dfstrans.model",
    "fig:notation": "drawing of the notation, nothing to compute: see docs/notation.md",
    "fig:st_att": "drawing of the two attentions, nothing to compute: see docs/notation.md",
    "fig:elevator": "drawing of the elevator, nothing to compute: see docs/elevator.md",
    "fig:1d_multihead": "drawing of the embedding, nothing to compute: see dfstrans.model.embedding",
    "tab:elevator": "list of sensors, nothing to compute: see docs/elevator.md",
    "tab:mh1dcnn": "list of settings, nothing to compute: see PRESETS in dfstrans.config",
    "tab:trans_hyp": "list of settings, nothing to compute: see PRESETS in dfstrans.config",
    "tab:hyp_benchmark": "list of settings, nothing to compute: see docs/rivals.md",
}
"""Labels of the paper that show no result."""


def figure_or_table(label: str) -> str:
    """The target that a label stands for; one without a result, or an unknown one, is refused with what there is."""
    if label in NO_RESULT:
        raise DfstransError(
            f"expected a table or figure that shows a result ({', '.join(TARGETS)}), got {label}, which is a "
            f"{NO_RESULT[label]}; choose another"
        )
    whole = next((figure for figure, parts in PANELS.items() if label in parts), label)
    if whole not in TARGETS:
        raise DfstransError(f"expected one of {', '.join(TARGETS)}, got {label!r}; {did_you_mean(label, [*TARGETS])}")
    return whole
