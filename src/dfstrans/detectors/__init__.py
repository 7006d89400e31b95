"""Detectors: the common base class, `Diagnoser`, trees, saved models and the registry."""
