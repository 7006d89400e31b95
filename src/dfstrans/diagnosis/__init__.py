"""From attention to a diagnosis: which sensors, at which time, which couplings, and how far to trust it."""
