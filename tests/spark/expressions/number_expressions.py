"""Expressions of numeric, decimal and temporal functions and casts, over the columns of `number_rows`.

A line of numbers.txt is a template and lists of what takes the place of its braces, each with each; "~" stands for a
blank there, "." for nothing.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

_TEXT = (Path(__file__).parent / "numbers.txt").read_text(encoding="utf-8")


def _expanded(line: str) -> list[str]:
    template, *lists = line.split(" ; ")
    chosen = [["" if item == "." else item.replace("~", " ") for item in each.split()] for each in lists]
    return [template.format(*items) for items in product(*chosen)]


def _section(name: str) -> list[str]:
    lines = _TEXT.partition(f"[{name}]\n")[2].partition("\n[")[0].splitlines()
    return list(dict.fromkeys(text for line in lines for text in _expanded(line)))


NUMERIC, CASTS, TEMPORAL, FAILING = (_section(name) for name in ("numeric", "casts", "temporal", "failing"))
