"""Documents: links resolve, files and tests they name exist, cells are short, decisions have the same headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.suite.steady import ROOT

LONGEST = 120
"""Characters of a table's cell, without the targets of its links."""

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "ARCHITECTURE.md")
)
DECISIONS = [page for page in PAGES if re.match(r"docs/adr/\d", page)]
GENERATED = {"docs/unsteady.md", "docs/test_full.md"}
"""Pages that runs of the suite write: with failures as they were, and tests of earlier commits."""

_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_NAMED = re.compile(r"`(?P<folder>(?:[\w.]+/)*)(?P<file>\w+\.py)?(?:::(?P<name>\w+)(?P<cut>\*|…|\[[^\]`]*\])?)?`")
_FUNCTION = re.compile(r"^ *(?:async )?(?:def|class) (\w+)", re.MULTILINE)


def text_of(page: str) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", (ROOT / page).read_text())


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub and GitLab make them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text())):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(next(a for a in (anchor, *(f"{anchor}-{n}" for n in range(1, 99))) if a not in found))
    return frozenset(found)


def broken_links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{target}: no such heading"


@cache
def files_by_name() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for folder in ("include", "tests", "dags", "jobs", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            found.setdefault(path.name, []).append(path)
    return found


@cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(_FUNCTION.findall(path.read_text()))


def missing_files(text: str, *, tests_only: bool = False) -> Iterator[str]:
    """Yield files and tests that a text names and that do not exist; a test without a file is of the file before it.

    A decision names modules as they were when it was made: of it only tests are looked for.
    """
    files: list[Path] = []
    for match in _NAMED.finditer(text):
        folder, file, name, cut = match["folder"], match["file"], match["name"], match["cut"] or ""
        if file and (file.startswith("test_") or not tests_only):
            files = [path for path in files_by_name().get(file, []) if str(path).endswith(f"/{folder}{file}")]
            if not files:
                yield match[0]
        if name and files:
            known = frozenset[str]().union(*(names_in(path) for path in files))
            if not any(one == name or (cut in ("*", "…") and one.startswith(name)) for one in known):
                yield match[0]
    yield from (f"`{folder}`" for folder in re.findall(r"`(tests/[\w/]+)`", text) if not (ROOT / folder).exists())


def shown(text: str) -> str:
    """Return a text without the targets of its links, as a reader sees it."""
    return re.sub(r"\[([^\]\n]*)\]\([^)\s]+\)", r"\1", text)


def long_cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [shown(cell).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            yield from (cell for cell in cells if len(cell) > LONGEST)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_anchors_resolve(page: str) -> None:
    assert list(broken_links(ROOT / page)) == []


def test_every_page_is_linked_from_another() -> None:
    linked = set()
    for page in PAGES:
        for target in _LINK.findall(text_of(page)):
            file = ((ROOT / page).parent / target.partition("#")[0]).resolve()
            linked |= {file} - {(ROOT / page).resolve()}
    assert [page for page in PAGES if page != "README.md" and (ROOT / page).resolve() not in linked] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED])
def test_cells_are_short(page: str) -> None:
    assert list(long_cells(text_of(page))) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED])
def test_files_and_tests_that_are_named_exist(page: str) -> None:
    assert list(missing_files(text_of(page), tests_only=page in DECISIONS)) == []


@pytest.mark.parametrize("page", DECISIONS)
def test_a_decision_has_context_decision_and_consequences(page: str) -> None:
    headings = re.findall(r"^## +(.+?) *$", text_of(page), re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences"]


def test_the_index_of_decisions_lists_each() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    assert [page for page in DECISIONS if f"]({Path(page).name})" not in index] == []


def test_folders_that_architecture_names_exist() -> None:
    part = text_of("ARCHITECTURE.md").partition("## Folders")[2].partition("## Layers")[0]
    rows = [line.split("|")[1:3] for line in part.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    missing = []
    for first, second in rows:
        outer = re.findall(r"`([\w/]+)/`", first)
        inner = re.findall(r"`([\w/]+)/`", second)
        places = [ROOT / "include" / "databus" / name for name in outer]
        missing += [str(place) for place in places if not place.is_dir()]
        missing += [name for name in inner if not any(p.is_dir() for place in places for p in place.rglob(name))]
    assert missing == []


def test_faults_of_documents_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Two `words` of it\n\n## Again\n\n## Again\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](gone.md) [b](there.md#two-words-of-it) [c](there.md#three) [d](there.md#again-1) [e](#none) [f](http://x/y)\n"
        "```\n[g](code.md)\n```\n"
    )
    assert [found.partition(":")[0] for found in broken_links(page)] == ["gone.md", "there.md#three", "#none"]
    assert list(long_cells("| a | " + "b" * 121 + " |\n| " + "c" * 120 + " |")) == ["b" * 121]
    here = (
        "`tests/unit/suite/test_documents.py`, `::test_cells_are_short`, `::test_cells_*`, `test_documents.py::test_no`"
    )
    assert list(missing_files(f"{here}, `test_nowhere_at_all.py`, `tests/nowhere`, `unit`")) == [
        "`test_documents.py::test_no`",
        "`test_nowhere_at_all.py`",
        "`tests/nowhere`",
    ]


def lists_without_a_line(text: str) -> Iterator[str]:
    """Yield first items right behind a paragraph: Python's Markdown makes no list of them, GitHub's does."""
    before, inside = "", False
    for line in text.splitlines():
        item = re.match(r"[*+-] |\d+\. ", line)
        if item and before and not inside and not before.startswith("#"):
            yield line
        inside = bool(item) or (inside and line != "")
        before = line


@pytest.mark.parametrize("page", PAGES)
def test_a_list_stands_behind_an_empty_line(page: str) -> None:
    assert list(lists_without_a_line(text_of(page))) == []


def test_what_the_site_would_not_take_for_a_list_is_found() -> None:
    text = "# Head\n* one\n\ntext\n* lost\n* lost too\n\n1. two\n   more\n2. three\ntext\n\ntext\n3. lost as well\n"
    assert list(lists_without_a_line(text)) == ["* lost", "3. lost as well"]


def test_the_readme_begins_with_two_commands_and_nests_no_parentheses() -> None:
    text = (ROOT / "README.md").read_text()
    first = text.partition("```\n")[2].partition("```")[0]
    assert re.findall(r"^make ([\w-]+)", first, re.MULTILINE) == ["demo", "test"]
    assert re.findall(r"^## (.*)", text, re.MULTILINE)[0] == "Two commands"
    assert re.findall(r"\([^()]*\([^()]*\)", shown(text_of("README.md"))) == []


def test_the_flow_of_the_readme_is_the_one_of_the_dag_folder() -> None:
    (block, *_) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block == (ROOT / "dags" / "orders_to_kafka.py").read_text()
