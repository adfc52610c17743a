"""Documents: ids made from keys, keys told from ids, and rows as items of a bulk request."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from databus.core.events import Op
from databus.core.tables.schemas import TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ID_BYTES = 512
"""Longest `_id` the servers take, in bytes of UTF-8."""

METADATA_FIELDS = frozenset(
    (
        *("_id", "_index", "_source", "_routing", "_seq_no", "_version"),
        *("_field_names", "_ignored", "_nested_path", "_data_stream_timestamp"),
    )
)
"""Fields of their own that both kinds of server refuse in every document, whatever its value or the mapping."""

DELETED_FIELD = "__deleted"
"""Field that marks a soft-deleted document; the name that Debezium's delete.tombstone.handling.mode=rewrite uses."""

_decode = json.JSONDecoder().raw_decode
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", re.IGNORECASE)
_NUMBERS = re.compile(r"((tiny|small|medium|big)?int|decimal|float|double|year)\b")


def key_values(key: str) -> list[str]:
    """Return the JSON text of each value of a canonical key object, in key order, digit for digit.

    Args:
        key: JSON object without spaces, e.g. {"id":1}.
    """
    values = []
    position = 1
    while key[position] != "}":
        _, colon = _decode(key, position)
        _, end = _decode(key, colon + 1)
        values.append(key[colon + 1 : end])
        position = end + 1 if key[end] == "," else end
    return values


def key_names(key: str) -> list[str]:
    """Return the names of a key's columns, in key order."""
    return list(json.loads(key))


def document_id(key: str, table: str = "") -> str:
    """Return the `_id` of a row.

    A key of one column gives its plain value, a composite key the JSON array of its values; longer than 512 bytes,
    the SHA-256 of that text in hex.

    Args:
        key: canonical key JSON.
        table: `database.table` to put before it, "" for none.
    """
    values = key_values(key)
    if len(values) == 1:
        text = str(json.loads(values[0])) if values[0].startswith('"') else values[0]
    else:
        text = f"[{','.join(values)}]"
    if table:
        text = f"{table}:{text}"
    raw = text.encode()
    # The servers refuse an empty id; the digest of "" cannot meet another key's.
    return text if 0 < len(raw) <= MAX_ID_BYTES else hashlib.sha256(raw).hexdigest()


def ids_may_meet(table: str) -> bool:
    """Return whether another table's name with a colon behind it may begin a table's name, `database.table`.

    A row of `shop.t` with the key "x:1" has the `_id` of a row of `shop.t:x` with the key "1", the tables' names before
    the keys: which table a document is of cannot be determined then.
    """
    _, dot, rest = table.partition(".")
    return bool(dot) and ":" in rest


@dataclass(slots=True)
class RowWrite:
    """The write of one row: an item of a bulk request, and what is needed to report it.

    Attributes:
        index: name of the index.
        id: `_id`.
        version: external version.
        document: JSON text of the document; None deletes it.
        table: `database.table`.
        transaction: file and position of the transaction's end.
        row: Arrow batch and row number in it, which hold the rest.
        superseded: the write of the same document just before this one; sent only when this one is refused.
        refusal: why it is not sent but held back, "" where it is.
        other: of a held-back delete of a primary-key update the `_id` of the document that its row has now; else "".
    """

    index: str
    id: str
    version: int
    document: str | None
    table: str
    transaction: tuple[str, int]
    row: tuple[pa.RecordBatch, int] = field(repr=False)
    superseded: RowWrite | None = field(default=None, repr=False)
    refusal: str = ""
    other: str = ""

    @property
    def of_snapshot(self) -> bool:
        """Return whether a snapshot read the row: no other row of its place is of its document."""
        batch, number = self.row
        return bool(batch.column("op")[number].as_py() == Op.READ.value)

    @property
    def event_id(self) -> str:
        """Event id of the row, which messages name it by: `id` is made of its key."""
        batch, number = self.row
        return str(batch.column("event_id")[number].as_py())

    def lines(self) -> bytes:
        """Return the item's lines of the bulk API (NDJSON)."""
        action = "delete" if self.document is None else "index"
        head = {"_index": self.index, "_id": self.id, "version": self.version, "version_type": "external_gte"}
        text = json.dumps({action: head}, ensure_ascii=False, separators=(",", ":"))
        return f"{text}\n".encode() if self.document is None else f"{text}\n{self.document}\n".encode()


def tombstone(key: str) -> str:
    """Return the document that stands for a deleted row: its key and the mark."""
    return f'{key[:-1]},"{DELETED_FIELD}":true}}'


def row_keys(table: TableSchema, ids: Iterable[str], *, shared: bool) -> list[bytes] | None:
    """Return the key JSON of those ids that a row of a table may have; None where an id does not say its key.

    Args:
        table: the table as the source has it.
        ids: `_id` of documents.
        shared: whether ids begin with the table's name.
    """
    key, types = table.primary_key, {column.name: column.type for column in table.columns}
    whole = [bool(_NUMBERS.match(types.get(name, ""))) for name in key]
    found = []
    for text in ids:
        if _DIGEST.fullmatch(text) and whole != [True]:
            return None
        if shared and not text.startswith(f"{table.full_name}:"):
            continue
        said = text[len(table.full_name) + 1 :] if shared else text
        values = _values(said) if len(key) > 1 else [said if whole[0] else json.dumps(said)]
        if len(values) != len(key) or any(n and not _NUMBER.fullmatch(v) for n, v in zip(whole, values, strict=True)):
            continue
        pairs = (f"{json.dumps(name)}:{value}" for name, value in zip(key, values, strict=True))
        found.append(f"{{{','.join(pairs)}}}".encode())
    return found


def table_of(text: str, tables: Sequence[str]) -> str | None:
    """Return the table whose name an id begins with; "" where none of them, None of an id that does not name its table.

    A colon in a table's name lets two names fit: the longer one is refused by the sink.
    """
    if _DIGEST.fullmatch(text):
        return None
    return next((name for name in tables if text.startswith(f"{name}:")), "")


def _values(text: str) -> list[str]:
    """Return the JSON text of each value of an id that is made of several; none of any other id."""
    try:
        listed = json.loads(text)
        if not isinstance(listed, list):
            return []
        spelled, decode, place = [], json.JSONDecoder().raw_decode, 1
        for _ in listed:
            _, end = decode(text, place)
            spelled.append(text[place:end])
            place = end + 1
    except ValueError:
        return []
    return spelled
