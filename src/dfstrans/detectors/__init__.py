"""Detectors: what all have in common, `Diagnoser`, trees, saved models and the registry."""
