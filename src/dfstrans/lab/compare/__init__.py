"""Compare detectors on the same splits, with significance tests."""

LEAKAGE = "leakage"  # the name of the leakage check
