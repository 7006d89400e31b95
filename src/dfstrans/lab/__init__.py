"""For researchers: the elevator simulator, injected faults, comparisons, and the tables and figures of the paper."""
