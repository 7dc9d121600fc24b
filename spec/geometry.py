"""Arithmetic of pages, chunks and boundaries: integers only, so that a proof can read it as it stands."""

from __future__ import annotations

from math import gcd


def boundary_grid(page_size: int, chunk_size: int) -> int:
    """Return lcm(page_size, chunk_size): boundaries are its multiples, counted from token 0."""
    return page_size * chunk_size // gcd(page_size, chunk_size)


def floor_to(grid: int, position: int) -> int:
    """Return the greatest multiple of `grid` that is not above `position`."""
    return position - position % grid


def lies_on(grid: int, position: int) -> bool:
    """Tell whether `position` is a multiple of `grid`."""
    return position % grid == 0


def columns_for(page_size: int, length: int) -> int:
    """Return how many page columns `length` tokens reach into."""
    return -(-length // page_size)
