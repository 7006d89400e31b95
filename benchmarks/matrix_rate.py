"""How fast this processor multiplies matrices: the limit of any network."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.turns import Case, measure_in_turns
from dfstrans.model.arithmetic import bf16_is_fast

SIZES = (1024, 2048)


def measure_matrix_rates(rounds: int, threads: int = 1) -> dict[str, float]:
    """GFLOPS of the fastest square matrix product in fp32 and, where the processor has it, in bf16."""
    types = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if bf16_is_fast() else {})
    rates = dict.fromkeys(types, 0.0)
    for size in SIZES:
        cases = {name: Case(_product(8, dtype), partial(_product, size, dtype)) for name, dtype in types.items()}
        for name, measured in measure_in_turns(cases, rounds, threads).items():
            rates[name] = max(rates[name], 2 * size**3 / measured.seconds / 1e9)
    return rates


def _product(size: int, dtype: torch.dtype) -> partial[object]:
    a, b = (torch.rand(size, size).to(dtype) for _ in range(2))
    return partial(torch.mm, a, b)
