"""Pages of docs/reference say what the code says."""

from __future__ import annotations

import difflib

import pytest

from tests.reference.pages import COMMAND, FOLDER, PAGES, written


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    path = FOLDER / name
    there = path.read_text() if path.exists() else ""
    changes = list(difflib.unified_diff(there.splitlines(), written(name).splitlines(), "committed", "code", n=0))
    assert changes == [], f"docs/reference/{name} is not what the code says: run `{COMMAND}` and commit the page"


def test_every_page_of_the_folder_is_generated_or_the_index() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {"README.md", *PAGES}
