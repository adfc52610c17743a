"""Page of the functions and operators of Spark SQL that are compiled to Arrow."""

from __future__ import annotations

from databus.expressions import functions

_HEAD = """# Compiled functions

Read this page to see which functions of Spark SQL keep a flow in the direct lane: those whose values, types and errors
are Spark's, as differential tests show ([ADR 64](../adr/0064-expressions-on-arrow.md)). Some compile for some types
of arguments only: `databus plan` and `databus flows show --connect` say what sends a table to Spark's lane, and why.
"""


def text() -> str:
    """Return the page."""
    names = functions.names()
    words = [name for name in names if name.isidentifier()]
    signs = [name for name in names if not name.isidentifier()]
    parts = [
        _HEAD,
        "## Operators and forms\n",
        _listed(signs),
        "## Functions\n",
        f"{len(words)} names; a type's name is its cast.\n",
        _listed(words),
    ]
    return "\n".join(parts)


def _listed(names: list[str]) -> str:
    """Return names as code, a line for each first letter."""
    lines: dict[str, list[str]] = {}
    for name in names:
        lines.setdefault(name[0] if name[0].isalpha() else "", []).append(f"`{name}`")
    return "\n".join(f"* {', '.join(of_letter)}" for of_letter in lines.values()) + "\n"
