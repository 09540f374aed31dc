"""Loops compiled by numba."""

from __future__ import annotations

from collections.abc import Callable

import numba


def compiled(function: Callable) -> Callable:
    """Compile a function with numba, cached on disk if the cache folder is writable."""
    try:
        return numba.njit(function, cache=True, nogil=True)
    except RuntimeError:  # no writable folder for the cache: compile in each process
        return numba.njit(function, nogil=True)
