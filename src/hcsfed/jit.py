"""Inner loops, compiled where numba is installed and plain Python where it is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, compiled when it is first asked for: importing numba takes longer than all of hcsfed.

    A kernel is one function of arrays and numbers that calls nothing of ours; the machine code is kept on disk.
    """
    try:
        import numba
    except ImportError:
        return kernel
    fast: Callable[..., Any] = numba.njit(cache=True, nogil=True)(kernel)
    return fast
