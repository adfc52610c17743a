"""Notes in an index: what is written down in its fields, or in its mapping's `_meta`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from databus.sinks.elasticsearch.client import reason_of, translated
from databus.sinks.elasticsearch.index_state import META

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

log = logging.getLogger(__name__)

_TRIES = 5


@dataclass(frozen=True)
class IndexNotes:
    """Writes notes into indices.

    Attributes:
        client: the client.
        place: connection for messages.
    """

    client: OpenSearch
    place: str

    def amend(
        self,
        index: str,
        fields: Mapping[str, Any],
        change: Callable[[dict[str, Any]], dict[str, Any]],
        what: str,
    ) -> bool:
        """Write something down in an index; return False where the login may not.

        Args:
            index: name.
            fields: the fields that say it; of an index that several flows may write to, the server merges them. Empty
                for an index of one table.
            change: adds it to what we keep in `_meta`: of an index of one table, or that takes no more fields.
            what: what is written down.
        """
        from opensearchpy.exceptions import AuthorizationException, OpenSearchException, RequestError

        try:
            if fields:
                try:
                    self.client.indices.put_mapping(index=index, body={"properties": fields})
                except RequestError as error:  # total_fields.limit, or documents have a field of that name
                    log.debug("%s: index %r takes no fields of ours: %s", self.place, index, reason_of(error.info))
                else:
                    return True
            self._amend_meta(index, change)
        except AuthorizationException as error:
            log.warning(
                "%s: the login may not write down in index %s (right manage) that %s: %s",
                self.place, index, what, reason_of(error.info),
            )  # fmt: skip
            return False
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: mapping of index {index!r}") from error
        return True

    def _amend_meta(self, index: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Change what we keep in an index's `_meta`, until it is seen there: the servers know no condition for it."""
        for _ in range(_TRIES):
            found = self.client.indices.get_mapping(index=index, params={"filter_path": "*.mappings._meta"})
            meta: dict[str, Any] = next((dict(m["mappings"]["_meta"]) for m in found.values()), {})
            ours = dict(meta.get(META, {}))
            if (changed := change(ours)) == ours:
                break
            meta[META] = changed
            self.client.indices.put_mapping(index=index, body={"_meta": meta})
