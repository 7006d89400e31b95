"""Models outside of training: ONNX export, and a runtime without torch."""
