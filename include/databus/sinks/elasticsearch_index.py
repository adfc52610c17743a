"""Indices: their names, their creation, and which table owns one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from databus.core.errors import SinkSettingError
from databus.sinks.elasticsearch_client import reason_of, translated
from databus.sinks.elasticsearch_document import DELETED_FIELD
from databus.sinks.envelope import FLAGS_FIELD

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

MAX_INDEX_BYTES = 255
_FORBIDDEN = frozenset('\\/*?"<>| ,#:')
_META = "databus"


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
        f"index template {template!r} gives {name!r} for table {database}.{table} (route {route!r}), which {problem}",
        hint="Set the sink's index, or a Route, so that names begin with a letter and hold none of "
        + " ".join(sorted(_FORBIDDEN)),
    )


@dataclass
class Indices:
    """Makes missing indices and sees to it that a table's documents do not overwrite another's.

    Attributes:
        client: the client.
        place: connection for messages.
        body: body of a create request, without the owner.
        shared: whether tables may share an index, because their ids differ or the flow's author says so.
    """

    client: OpenSearch
    place: str
    body: Mapping[str, Any]
    shared: bool
    _owners: dict[str, str] = field(default_factory=dict)

    def ensure(self, index: str, table: str) -> None:
        """Make the index when it is missing; asks the server once per index.

        Raises:
            SinkSettingError: the index belongs to another table, or the server refuses to make it.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        if index not in self._owners:
            self._owners[index] = self._owner(index, table) or table
        owner = self._owners[index]
        if not self.shared and owner != table:
            raise SinkSettingError(
                f"{self.place}: rows of {owner} and of {table} go to one index {index!r}, "
                "where equal keys would overwrite each other",
                hint='Put {database} and {table} into the index template, or set ids="table_key" (keys with the '
                'table\'s name), or ids="key" when the tables never share a key.',
                code="sink_index_shared",
            )

    def _owner(self, index: str, table: str) -> str | None:
        from opensearchpy.exceptions import OpenSearchException

        try:
            # 404 is an expected answer: asked for this way the client does not log it as a failure.
            params = {"filter_path": "*.mappings._meta,status", "ignore": 404}
            found = self.client.indices.get_mapping(index=index, params=params)
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: reading index {index!r}") from error
        if found.get("status") == 404:
            return self._create(index, table)
        for concrete in found.values():
            owner = concrete["mappings"]["_meta"].get(_META, {}).get("table")
            if owner:
                return str(owner)
        return None

    def _create(self, index: str, table: str) -> str:
        from opensearchpy.exceptions import OpenSearchException, RequestError

        mappings = dict(self.body.get("mappings", {}))
        meta = {} if self.shared else {"table": table}
        mappings["_meta"] = {**mappings.get("_meta", {}), _META: meta}
        try:
            self.client.indices.create(index=index, body={**self.body, "mappings": mappings})
        except RequestError as error:
            if error.error == "resource_already_exists_exception":  # another writer was faster
                return self._owner(index, table) or table
            raise SinkSettingError(
                f"{self.place}: index {index!r} cannot be created: {reason_of(error.info)}",
                hint="Check the sink's mapping and settings.",
                code="sink_index_refused",
            ) from error
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: creating index {index!r}") from error
        return table


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
