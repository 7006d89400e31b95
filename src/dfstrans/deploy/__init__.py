"""Trained models outside of dfstrans: ONNX export, and a runtime without torch."""
