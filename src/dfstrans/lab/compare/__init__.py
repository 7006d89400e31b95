"""Compare detectors on the same splits, with significance tests."""
