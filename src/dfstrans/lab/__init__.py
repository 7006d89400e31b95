"""For researchers: the elevator simulator, planted faults, comparisons, and the tables and figures of the paper."""
