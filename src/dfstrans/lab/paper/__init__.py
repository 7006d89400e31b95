"""The paper's tables and figures, each by its label, and an ablation: see `targets`."""
