"""Pages on writing a source or sink show the examples as they are."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    "docs/write-a-sink.md": ("examples/databus-http-sink", "databus_http_sink.py", 40),
    "docs/write-a-source.md": ("examples/databus-counter-source", "databus_counter_source.py", 60),
}

PUBLIC = {"databus", "databus.extend", "databus.testing.contract"}
"""Modules that packages outside of this one may import."""


def imported(code: str) -> set[str]:
    """Return the modules of databus that a text imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(code)))
    found = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    found |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {module for module in found if module == "databus" or module.startswith("databus.")}


def test_examples_import_public_modules_alone() -> None:
    files = sorted((ROOT / "examples").rglob("*.py"))
    assert {folder for folder, _, _ in PAGES.values()} <= {str(f.relative_to(ROOT).parent) for f in files}
    deep = {str(f.relative_to(ROOT)): found for f in files if (found := imported(f.read_text()) - PUBLIC)}
    assert deep == {}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_the_module_and_its_entry_point(page: str) -> None:
    folder, module, most = PAGES[page]
    text, code = (ROOT / page).read_text(), (ROOT / folder / module).read_text()
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    assert ("python", code) in blocks
    assert sum(1 for line in code.splitlines() if line.strip()) <= most
    shown = next(tomllib.loads(block) for kind, block in blocks if kind == "toml")
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    assert shown["project"]["entry-points"] == project["entry-points"]
    assert "## Limits" in text
    assert page.rpartition("/")[2] in (ROOT / "ARCHITECTURE.md").read_text()
    assert page in (ROOT / folder / "README.md").read_text()
