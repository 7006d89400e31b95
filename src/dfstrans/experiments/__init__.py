"""Comparisons of models on several splits, and the paper's tables and figures: work that survives being interrupted."""
