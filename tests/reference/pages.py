"""Pages of docs/reference, each with the function that makes its text from the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.reference import (
    cli_page,
    connections_page,
    consumer_page,
    dags_page,
    environment_page,
    errors_page,
    functions_page,
    kinds_pages,
    messages_page,
    versions_page,
)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
COMMAND = "make reference"

PAGES: dict[str, Callable[[], str]] = {
    **kinds_pages.pages(),
    "dags.md": dags_page.text,
    "functions.md": functions_page.text,
    "cli.md": cli_page.text,
    "errors.md": errors_page.text,
    "environment.md": environment_page.text,
    "connections.md": connections_page.text,
    "consumer.md": consumer_page.text,
    "messages.md": messages_page.text,
    "versions.md": versions_page.text,
}
"""File name → its text."""


def written(name: str) -> str:
    """Return a page as it is to be committed."""
    title, _, rest = PAGES[name]().partition("\n")
    return f"{title}\n\n<!-- Written by `{COMMAND}`: change the code, not this page. -->\n{rest.rstrip()}\n"
