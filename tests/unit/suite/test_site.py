"""The documents' site: built strictly, whole, without the network."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.suite.steady import ROOT

pytestmark = pytest.mark.timeout(120)

_LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?([^\"\s>]+)|<link[^>]*\shref=\"?([^\"\s>]+)")
_FROM_CSS = re.compile(r"(?:url\(|@import)\s*[\"']?(https?:[^\"')\s]+)")


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)],
        check=False, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_document_is_a_page(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    as_html = [page.with_name("index") if page.name == "README" else page for page in pages]
    assert len(as_html) > 100
    assert [str(page) for page in as_html if not (site / f"{page}.html").is_file()] == []


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    loaded = {
        (page.name, html.unescape(address))
        for page in pages
        for pair in _LOADED.findall(page.read_text())
        for address in pair
        if re.match(r"(?:https?:)?//", address)
    }
    assert loaded == set()
    assert {found for css in site.rglob("*.css") for found in _FROM_CSS.findall(css.read_text())} == set()
    assert [page.name for page in pages if 'class="mermaid"' in page.read_text()] == []


def test_no_table_is_shown_as_text(site: Path) -> None:
    assert [page.name for page in site.rglob("*.html") if re.search(r"\|-+\|", page.read_text())] == []


def test_the_search_knows_every_page(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    found = json.loads(index.removeprefix("var __index = "))
    known = {entry["location"].partition("#")[0] for entry in found["docs"]}
    pages = {str(page.relative_to(site)) for page in site.rglob("*.html")} - {"404.html", "index.html"}
    assert pages - known == set()


def test_a_file_outside_of_docs_is_a_page_too(site: Path) -> None:
    assert '"../architecture.html#glossary"' not in (site / "guarantees.html").read_text()
    assert '"architecture.html#glossary"' in (site / "guarantees.html").read_text()
    page = (site / "architecture.html").read_text()
    assert 'id="glossary"' in page
    assert '"adr/0046-rows-that-leave-a-filter.html"' in page


@pytest.mark.parametrize(
    ("path", "uri", "text", "expected"),
    [
        ("docs/a.md", "a.md", "[x](b.md#c) [y](https://h/z)", "[x](b.md#c) [y](https://h/z)"),
        ("docs/adr/a.md", "adr/a.md", "[x](../../ARCHITECTURE.md#c)", "[x](../architecture.md#c)"),
        ("docs/a.md", "a.md", "[x](../README.md) [y](#z)", "[x](index.md) [y](#z)"),
        ("ARCHITECTURE.md", "architecture.md", "[x](docs/adr/README.md)", "[x](adr/README.md)"),
        ("docs/r/a.md", "r/a.md", "[x](../../dags/d.py)", "[x](../source/dags/d.py.md)"),
        ("examples/e/README.md", "source/examples/e/README.md", "[x](../../docs/a.md)", "[x](../../../a.md)"),
        ("docs/a.md", "a.md", "```\n[x](../dags/d.py)\n```\n", "```\n[x](../dags/d.py)\n```\n"),
    ],
)
def test_links_lead_to_the_sites_pages(hooks: ModuleType, path: str, uri: str, text: str, expected: str) -> None:
    assert hooks.rewritten(text, path, uri) == expected


def test_a_faulty_page_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# One\n\n[a](gone.md) [b](two.md#none) [c](two.md#what-is--here)\n")
    (docs / "two.md").write_text("# Two\n\n## What is / here\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: {docs}\nnav: [index.md, two.md]\nhooks: []\nextra_css: []\n"
    )
    done = build(tmp_path / "site", config)
    assert done.returncode == 1
    warned = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert len(warned) == 2, done.stderr
    assert "'gone.md'" in warned[0]
    assert "'two.md#none'" in warned[1]
