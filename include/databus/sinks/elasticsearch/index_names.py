"""Names of indices, and the body of the request that makes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from databus.core.errors.sink import SinkSettingError
from databus.sinks.elasticsearch.documents import DELETED_FIELD
from databus.sinks.envelope import FLAGS_FIELD

if TYPE_CHECKING:
    from databus.sinks.elasticsearch.spec import Elasticsearch

MAX_INDEX_BYTES = 255
_FORBIDDEN = frozenset('\\/*?"<>| ,#:')


def index_name(template: str, *, flow: str, database: str, table: str, route: str) -> str:
    """Return the name of the index for a row.

    Raises:
        SinkSettingError: the result is not a name the servers take (Index API, "name restrictions").
    """
    name = template.format(flow=flow, database=database, table=table, route=route).lower()
    if not name or name in (".", "..") or name[0] in "-_+" or _FORBIDDEN & set(name):
        problem = "is not a valid index name"
    elif len(name.encode()) > MAX_INDEX_BYTES:
        problem = f"is longer than {MAX_INDEX_BYTES} bytes"
    else:
        return name
    raise SinkSettingError(
        f"flow {flow}: index template {template!r} gives {name!r} for table {database}.{table} (route {route!r}), "
        f"which {problem}",
        hint="Set the sink's index, or a Route, so that names begin with a letter and hold none of "
        + " ".join(sorted(_FORBIDDEN)),
    )


def target_of(spec: Elasticsearch, flow: str, database: str, table: str, route: str) -> tuple[str, str, str]:
    """Return a table's full name, the index that its rows go to, and the name that stands before their keys in ids.

    Raises:
        SinkSettingError: see `index_name`.
    """
    full_name = f"{database}.{table}"
    index = index_name(spec.index, flow=flow, database=database, table=table, route=route)
    return full_name, index, full_name if spec.ids == "table_key" else ""


def create_body(
    mapping: Mapping[str, Any] | None, settings: Mapping[str, Any] | None, gc_deletes: str, *, soft_deletes: bool
) -> dict[str, Any]:
    """Return the body of a create-index request.

    Args:
        mapping: the flow's mappings, None for dynamic ones.
        settings: the flow's settings.
        gc_deletes: default of index.gc_deletes.
        soft_deletes: whether documents carry the mark of a deletion.
    """
    mappings = dict(mapping or {})
    if mapping is not None:  # a strict one would refuse the rows that have flags
        mappings["properties"] = {FLAGS_FIELD: {"type": "keyword"}, **mappings.get("properties", {})}
    if soft_deletes:
        mappings["properties"] = {DELETED_FIELD: {"type": "boolean"}, **mappings.get("properties", {})}
    return {"settings": {"index.gc_deletes": gc_deletes, **(settings or {})}, "mappings": mappings}
