"""Work in parts that stay in the processor's cache."""

from __future__ import annotations

VALUES_AT_ONCE = 1 << 18  # of a part's convolution output: 1 MB, which the cache of a single core holds


def cache_sized_parts(n_segments: int, n_channels: int, n_points: int) -> list[slice]:
    """Ranges of segments that fit into the cache together."""
    size = max(1, VALUES_AT_ONCE // (n_channels * n_points))
    return [slice(start, start + size) for start in range(0, n_segments, size)]
