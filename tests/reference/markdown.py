"""Texts of the code as Markdown that shows the same characters."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[*<\[\]]|(?<!\w)_|_(?!\w)")
"""Characters that Markdown would take as its own; inside a word an underscore is none."""


def plain(text: str) -> str:
    """Return a text with what Markdown would take as its own escaped; code in backticks stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(_escaped, part) for part in parts)


def _escaped(found: re.Match[str]) -> str:
    # Of "<" python-markdown, which a site is built with, takes no backslash.
    return "&lt;" if found[0] == "<" else f"\\{found[0]}"
