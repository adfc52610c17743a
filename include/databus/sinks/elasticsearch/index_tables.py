"""Tables of an index, a field of its mapping for each: which write to it, and when one was emptied.

The servers replace a mapping's `_meta` as a whole and know no condition for it: of two flows that read, add and write
at once one is lost. Fields are merged by the server, one by one. These two kinds are in no document, and not indexed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

WRITERS, EMPTIED = "__tables", "__emptied"
_VERSION = "version"
_FIELD = {"type": "keyword", "index": False, "doc_values": False}

PATHS = ",".join(f"*.mappings.properties.{name}" for name in (WRITERS, EMPTIED))
"""Parts of a mapping that `filter_path` lets through, for `IndexTables.of`."""


@dataclass(frozen=True)
class IndexTables:
    """Table list of an index.

    Attributes:
        writers: tables that write to it.
        emptied: table → greatest version of a statement that emptied it.
    """

    writers: frozenset[str] = frozenset()
    emptied: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> IndexTables:
        """Read the fields of a mapping; those of documents are passed over."""
        writers, emptied = (properties.get(name, {}).get("properties", {}) for name in (WRITERS, EMPTIED))
        versions = {unquote(name): given.get("meta", {}).get(_VERSION, "") for name, given in emptied.items()}
        numbers = {table: int(version) for table, version in versions.items() if version.isdigit()}
        return cls(frozenset(map(unquote, writers)), numbers)


def writes(table: str) -> dict[str, Any]:
    """Return the fields by which an index says that a table writes to it."""
    return _fields(WRITERS, table, _FIELD)


def was_emptied(table: str, version: int) -> dict[str, Any]:
    """Return the fields by which an index says when a table was emptied, in place of an earlier version."""
    return _fields(EMPTIED, table, {**_FIELD, "meta": {_VERSION: str(version)}})


def _fields(kind: str, table: str, mapping: Mapping[str, Any]) -> dict[str, Any]:
    name = quote(table, safe="").replace(".", "%2E")  # a dot would nest, and names may hold anything
    return {kind: {"properties": {name: dict(mapping)}}}
