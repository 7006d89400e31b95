"""Training: batches, the Lightning module, the fit, the threshold and the evaluation."""
