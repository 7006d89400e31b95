"""From attention to answers: which sensors, which moments, how they hang together."""
