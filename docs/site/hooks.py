"""MkDocs hooks: a page for each file outside docs/ that a page links to.

A link such as `../include/databus/core/flow.py` is right where the repository is read; the site has docs/ alone.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PLACES = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md"}
"""File of the repository → its page; further ones lie below source/."""

LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "bash", ".toml": "toml"}

_FENCED = re.compile(r"(^ *(?:`{3,}|~{3,}).*?^ *(?:`{3,}|~{3,}) *$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>\[[^\]\n]*\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")

_sources: dict[str, str] = {}
"""Page of the site → file of the repository, for files outside docs/ in the present build."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page links to, pages that these link to as well."""
    _sources.clear()
    docs = posixpath.relpath(config.docs_dir, ROOT)
    pages = [f"{docs}/{file.src_uri}" for file in files.documentation_pages()]
    for page in pages:  # grows
        for target in _targets((ROOT / page).read_text(encoding="utf-8")):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            uri = place_of(path, docs)
            if path.startswith((f"{docs}/", "../")) or uri in files.src_uris or not (ROOT / path).exists():
                continue
            _sources[uri] = path
            files.append(File.generated(config, uri, content=_shown(ROOT / path, path)))
            if path.endswith(".md"):
                pages.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Lead links of a page to files outside docs/, and all links of such a file, to pages of the site."""
    docs = posixpath.relpath(config.docs_dir, ROOT)
    uri = page.file.src_uri
    return rewritten(markdown, _sources.get(uri, f"{docs}/{uri}"), uri, docs)


def rewritten(markdown: str, path: str, uri: str, docs: str = "docs") -> str:
    """Return a page's text with its links as the site has them.

    Args:
        markdown: the text.
        path: the page's file in the repository, from which its links lead.
        uri: its place in the site.
        docs: the folder of the site's pages in the repository.
    """

    def link(match: re.Match[str]) -> str:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), match["target"]))
        target = posixpath.relpath(place_of(file, docs), posixpath.dirname(uri) or ".")
        return f"{match['before']}{target}{match['anchor'] or ''})"

    parts = _FENCED.split(markdown)
    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def place_of(path: str, docs: str = "docs") -> str:
    """Return the place in the site of a file of the repository."""
    if path.startswith(f"{docs}/"):
        return path.removeprefix(f"{docs}/")
    return PLACES.get(path) or f"source/{path}" + ("" if path.endswith(".md") else ".md")


def _targets(markdown: str) -> Iterator[str]:
    for part in _FENCED.split(markdown)[::2]:
        yield from (match["target"] for match in _LINK.finditer(part))


def _shown(file: Path, path: str) -> str:
    """Return the text of a page that shows a file, or what is in a folder."""
    if file.is_dir():
        names = sorted(
            f"* `{below.name}{'/' * below.is_dir()}`" for below in file.iterdir() if below.name[0] not in "._"
        )
        return "\n".join((f"# {path}/", "", *names, ""))
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    return f"# {path}\n\n``````{LANGUAGES.get(file.suffix, 'text')}\n{text.rstrip()}\n``````\n"
