"""Amounts as people read them: a number with separators and the noun that goes with it."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 row", "2 rows", "1,000 rows".

    Args:
        number: how many.
        noun: what one of them is called.
        plural: what several are called; `noun` with an s unless given.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
