"""Rivals of DFStrans: four networks of the paper, and MiniRocket."""
