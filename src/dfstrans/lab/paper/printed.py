"""The metrics and counts that the paper prints, and its inconsistencies."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """Precision, recall and F1, as means of five splits."""

    precision: float
    recall: float
    f1: float
    spread: tuple[float, float, float] | None = None  # standard deviations, if printed


# the names of data sets are those of `request.DATA_SETS`, the names of models those of the registry
RESULTS: dict[str, dict[str, Printed]] = {  # tab:qresults
    "elevator": {
        "mh1dcnn-lstm": Printed(0.993, 0.914, 0.951),
        "inceptiontime": Printed(1.0, 0.892, 0.944),
        "tapnet": Printed(0.398, 0.711, 0.510),
        "mlstm-fcn": Printed(0.913, 0.724, 0.808),
        "dfstrans": Printed(0.989, 0.917, 0.952),
    },
    "smd": {
        "mh1dcnn-lstm": Printed(0.913, 0.744, 0.807),
        "inceptiontime": Printed(0.856, 0.925, 0.882),
        "tapnet": Printed(0.842, 0.606, 0.706),
        "mlstm-fcn": Printed(0.951, 0.853, 0.895),
        "dfstrans": Printed(0.973, 0.946, 0.959),
    },
    "msl": {
        "mh1dcnn-lstm": Printed(0.821, 0.821, 0.821),
        "inceptiontime": Printed(0.965, 0.948, 0.956),
        "tapnet": Printed(0.875, 0.867, 0.857),
        "mlstm-fcn": Printed(0.952, 0.925, 0.938),
        "dfstrans": Printed(0.867, 0.882, 0.874),
    },
    "smap": {
        "mh1dcnn-lstm": Printed(0.923, 0.805, 0.859),
        "inceptiontime": Printed(0.853, 0.687, 0.761),
        "tapnet": Printed(0.66, 0.908, 0.765),
        "mlstm-fcn": Printed(0.963, 0.833, 0.894),
        "dfstrans": Printed(0.883, 0.826, 0.853),
    },
}
ENCODINGS: dict[str, dict[str, Printed]] = {  # tab:qresults_pe
    "elevator": {"dfstrans-vanilla": Printed(0.952, 0.914, 0.931), "dfstrans": Printed(0.989, 0.917, 0.952)},
    "smd": {"dfstrans-vanilla": Printed(0.986, 0.942, 0.963), "dfstrans": Printed(0.985, 0.948, 0.965)},
    "msl": {"dfstrans-vanilla": Printed(0.862, 0.838, 0.849), "dfstrans": Printed(0.867, 0.882, 0.874)},
    "smap": {"dfstrans-vanilla": Printed(0.887, 0.823, 0.854), "dfstrans": Printed(0.883, 0.826, 0.853)},
}
EXTRACTION: dict[str, dict[str, Printed]] = {  # tab:linear_comp
    "elevator": {
        "dfstrans": Printed(0.989, 0.917, 0.952, (0.016, 0.022, 0.005)),
        "dfstrans-linear": Printed(0.986, 0.668, 0.778, (0.002, 0.045, 0.041)),
        "dfstrans-tanh": Printed(0.980, 0.85, 0.912, (0.002, 0.043, 0.030)),
    }
}
COUNTS: dict[str, dict[str, int]] = {  # tab:timeparams
    "dfstrans": {"elevator": 3_878_033, "smd": 5_840_153, "smap": 2_225_553, "msl": 4_197_153},
    "inceptiontime": {"elevator": 3_303_681, "smd": 726_657, "smap": 724_161, "msl": 729_921},
    "tapnet": {"elevator": 5_155_962, "smd": 1_389_690, "smap": 1_334_394, "msl": 1_457_274},
    "mlstm-fcn": {"elevator": 371_457, "smd": 399_105, "smap": 379_137, "msl": 425_217},
    "mh1dcnn-lstm": {"elevator": 20_764_385, "smd": 2_696_145, "smap": 1_841_785, "msl": 2_768_905},
}
SECONDS: dict[str, dict[str, float]] = {  # tab:timeparams, per epoch; the hardware is not named
    "dfstrans": {"elevator": 102.14, "smd": 3.36, "smap": 19.24, "msl": 8.11},
    "inceptiontime": {"elevator": 131.29, "smd": 2.10, "smap": 10.48, "msl": 2.54},
    "tapnet": {"elevator": 96.83, "smd": 2.62, "smap": 8.23, "msl": 2.32},
    "mlstm-fcn": {"elevator": 203.21, "smd": 2.49, "smap": 9.81, "msl": 2.66},
    "mh1dcnn-lstm": {"elevator": 73.48, "smd": 3.51, "smap": 25.32, "msl": 7.24},
}
BY_SENSORS: dict[int, int] = {  # tab:n_params_s, for segments of 100 points
    10: 2_606_433,
    20: 3_878_033,
    30: 5_149_633,
    40: 6_421_233,
    50: 7_692_833,
    60: 8_964_433,
    70: 10_236_033,
    80: 11_507_633,
}
SLIPS: dict[tuple[str, str], str] = {
    ("dfstrans", "smd"): "the printed count is that of 80 sensors; the data set has 38",
    (
        "mh1dcnn-lstm",
        "msl",
    ): "the printed count has the LSTM of SMD's 38 sensors instead of MSL's 55",
    ("mh1dcnn-lstm", "elevator"): "printed for a network without max-pooling, although the hyper-parameters include it",
}
"""Printed counts that disagree with the description of the network, or need an explanation."""


def printed_for(model: str, table: dict[str, Printed]) -> Printed | None:
    """The printed metrics of a model, or of the model that differs only in training."""
    name = model.split("+")[0]
    alike = (name, *(name.replace(training, "") for training in ("-paper", "-plain", "-long")))
    return next((table[one] for one in alike if one in table), None)


class Detection(NamedTuple):
    """A table of the paper: its models, and its printed metrics by data set."""

    models: tuple[str, ...]
    printed: dict[str, dict[str, Printed]]
    if_finished: tuple[str, ...] = ()  # shown if finished; only computed on request, because they need an extra

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data sets of the table."""
        return tuple(self.printed)


DETECTION: dict[str, Detection] = {
    "tab:qresults": Detection(
        (
            "dfstrans",
            "dfstrans-plain",
            "dfstrans-paper",
            "mh1dcnn-lstm",
            "inceptiontime",
            "tapnet",
            "mlstm-fcn",
            "boosting",
            "leakage",
        ),
        RESULTS,
        ("minirocket",),
    ),
    "tab:qresults_pe": Detection(("dfstrans", "dfstrans-vanilla"), ENCODINGS),
    "tab:linear_comp": Detection(("dfstrans", "dfstrans-cnn", "dfstrans-linear", "dfstrans-tanh"), EXTRACTION),
}
