"""Error codes with cause and way out, a module by who raises; a test holds them equal to the codes of the package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

_PAGE = "reference/errors.md"
"""Page with an entry under each code, in the folder of documents."""


@dataclass(frozen=True)
class ErrorEntry:
    """Entry of an error code, as `databus explain` and the reference show it.

    Attributes:
        cause: why the error is raised, in one or two sentences.
        way_out: what a person does about it; the error's own hint is more exact, where it has one.
        exits: exit codes of the command (`databus.cli.terminal.exits`), more than one where the same code is a failure
            of a run and a refusal of a definition; empty for a warning, which stops nothing.
        retried: whether the same run may succeed later without a person, so that Airflow tries it again.
    """

    cause: str
    way_out: str
    exits: tuple[int, ...] = (1,)
    retried: bool = False


def all_entries() -> dict[str, ErrorEntry]:
    """Return code → its entry, of all codes, sorted."""
    # Loaded when somebody asks: no run needs them.
    from databus.core.errors.entries import checkpoint, consumer, definition, environment, sink, source, stream

    modules = (source, sink, checkpoint, definition, environment, consumer, stream)
    found = {code: entry for module in modules for code, entry in module.ENTRIES.items()}
    return {code: found[code] for code in sorted(found)}


def nearest(code: str, most: int = 3) -> tuple[str, ...]:
    """Return codes that are spelled alike, or that hold the text; the nearest first."""
    known, asked = list(all_entries()), code.strip().lower().replace("-", "_").replace(" ", "_")
    alike = get_close_matches(asked, known, n=most, cutoff=0.6)
    within = [name for name in known if asked and asked in name]
    return tuple(dict.fromkeys([*alike, *within]))[:most]


def more_of(code: str) -> str:
    """Return the command that prints the entry of a code; "" for a code of another package."""
    return f"databus explain {code}" if code in all_entries() else ""


def page_of(code: str) -> str:
    """Return where the entry of a code stands: below $DATABUS_DOCS_URL, else in the checkout that one stands in.

    Returns:
        An address or a path; "" where there is neither: a wheel has no documents.
    """
    url = os.environ.get("DATABUS_DOCS_URL")
    if not url and not Path("docs", _PAGE).is_file():
        return ""
    return f"{(url or 'docs').rstrip('/')}/{_PAGE}#{code}"


def told_with_more(error: object) -> str:
    """Return an error's text for a log, with a line that leads to its entry."""
    code = getattr(error, "code", "")
    more = more_of(code)
    page = page_of(code)
    at = f" ({page})" if page else ""
    return f"{error}\nmore: {more}{at}" if more else str(error)
