"""Fourier analysis of positional encodings: which frequencies they hold, what they can tell apart."""

from dfstrans.fourier.faithfulness import Faithfulness, check_faithfulness
from dfstrans.fourier.reconstruction import Blur, blur_of, position_functions, reconstruct
from dfstrans.fourier.spectrum import (
    as_density,
    faithful_distribution,
    frequency_distribution,
    lowest_bin_crossing,
    lowest_bin_entries,
    vanilla_distribution,
)
from dfstrans.fourier.study import EncodingStudy, study_encodings

__all__ = [
    "Blur",
    "EncodingStudy",
    "Faithfulness",
    "as_density",
    "blur_of",
    "check_faithfulness",
    "faithful_distribution",
    "frequency_distribution",
    "lowest_bin_crossing",
    "lowest_bin_entries",
    "position_functions",
    "reconstruct",
    "study_encodings",
    "vanilla_distribution",
]
