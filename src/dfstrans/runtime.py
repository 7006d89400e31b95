"""Predict with an exported model where torch is not installed; the code is in `dfstrans.deploy.runtime`."""

from dfstrans.deploy.runtime import OnnxDetector, OnnxPass

__all__ = ["OnnxDetector", "OnnxPass"]
