"""Texts of the code as Markdown that shows the same characters."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[*<\[\]]|(?<!\w)_|_(?!\w)")
"""Characters that Markdown would take as its own; inside a word an underscore is none."""


def plain(text: str) -> str:
    """Return a text with what Markdown would take as its own escaped; code in backticks stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\g<0>", part) for part in parts)
