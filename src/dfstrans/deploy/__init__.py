"""Deployment of trained models: ONNX export, and a runtime without torch."""
