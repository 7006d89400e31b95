"""Rivals of DFStrans behind the same interface: four networks of the paper, and what a user would pick today."""

from dfstrans.baselines.registry import MODELS, load_detector

__all__ = ["MODELS", "load_detector"]
