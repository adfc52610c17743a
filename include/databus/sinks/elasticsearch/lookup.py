"""Reading documents by id over plain HTTP: opensearch-py would take longer to load than to answer a person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from databus.core.connections import Connection
from databus.core.errors.sink import SinkError
from databus.sinks.elasticsearch.client import refused, where
from databus.sinks.elasticsearch.node_requests import NodeRequests


class DocumentLookup:
    """Asks the nodes of one connection; for one thread. Opening it does no I/O.

    Args:
        connection: read as `elasticsearch_client.connect` reads it.
    """

    def __init__(self, connection: Connection) -> None:
        self._where = where(connection)
        self._nodes = NodeRequests(connection)

    def get(self, index: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return id → what the server has of a document, of those that are there; in real time.

        Raises:
            SinkUnavailableError: no node answers.
            SinkAccessError, SinkSettingError, SinkError: the server refuses.
        """
        if not ids:
            return {}
        one = len(ids) == 1
        path = f"/{quote(index, safe='')}/" + (f"_doc/{quote(ids[0], safe='')}" if one else "_mget")
        place = f"{self._where}: reading {index}/{ids[0] if one else f'{len(ids)} documents'}"
        status, answer = self._ask(path, "" if one else json.dumps({"ids": list(ids)}), place)
        if status == 404:
            return {}
        if status != 200:
            raise refused(place, status, answer)
        found = {}
        for told in [answer] if one else answer["docs"]:
            if "error" in told and "index_not_found" not in json.dumps(told["error"]):
                raise refused(place, status, told)
            if told.get("found"):
                found[str(told["_id"])] = told
        return found

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        self._nodes.close()

    def _ask(self, path: str, body: str, place: str) -> tuple[int, Any]:
        status, text = self._nodes.ask(path, body, place)
        try:
            return status, json.loads(text)
        except ValueError:
            if status == 200:
                raise SinkError(f"{self._where}: the answer to {path} is no JSON") from None
            return status, text.decode("utf-8", "replace")
