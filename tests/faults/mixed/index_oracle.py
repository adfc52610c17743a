"""What a reader of the index sees: documents must go forward only, and deleted ones stay deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import NotFoundError

from tests.faults.changes import TABLES, Key, text_of
from tests.faults.oracle import Verdict

_PAGE = 2_000
_BY_ID = {"id": {"order": "asc", "unmapped_type": "long"}}


class IndexOracle:
    """Reads all documents again and again, and remembers what each key's must be at least.

    Attributes:
        verdict: what was found, shared with the other oracles.
        floor: key → the oldest version that its document may still show.
    """

    def __init__(self, address: str, database: str, verdict: Verdict):
        host, _, port = address.partition(":")
        self._client = OpenSearch([{"host": host, "port": int(port)}], timeout=20, max_retries=0)
        self._database = database
        self.verdict = verdict
        self.floor: dict[Key, int] = {}
        self._gone: set[Key] = set()

    def close(self) -> None:
        self._client.close()

    def documents(self) -> dict[Key, Mapping[str, Any]]:
        """Return all documents, page by page in the order of their ids; each page is as of one moment.

        Raises:
            OpenSearchException: no answer.
        """
        found: dict[Key, Mapping[str, Any]] = {}
        for table in TABLES:
            index = f"{self._database}.{table}"
            try:
                self._client.indices.refresh(index=index)
            except NotFoundError:  # nothing was written yet
                continue
            after = -1
            while True:
                body = {"size": _PAGE, "sort": [_BY_ID], "search_after": [after]}
                hits = self._client.search(index=index, body=body)["hits"]["hits"]
                found.update({(table, hit["_source"]["id"]): hit["_source"] for hit in hits})
                if len(hits) < _PAGE:
                    break
                after = hits[-1]["sort"][0]
        return found

    def look(self, documents: Mapping[Key, Mapping[str, Any]], history: Mapping[Key, Sequence[str]]) -> None:
        """Judge documents that were read before `history` was taken: key → operations so far."""
        for key, document in documents.items():
            ops, version = history.get(key, ()), int(document["v"])
            text = f"document of {key} says v={version}"
            if version < self.floor.get(key, 0):
                kind = "resurrected" if key in self._gone else "disordered"
                self.verdict.add(kind, f"{text}, it was at {self.floor[key]} or later before")
            elif version > len(ops) or ops[version - 1] == "d":
                self.verdict.add("ghost", f"{text}, which never was: {''.join(ops)}")
            elif document["w"] != text_of(*key, version):
                self.verdict.add("wrong", f"{text}, and another text")
            self.floor[key] = max(version, self.floor.get(key, 0))
            self._gone.discard(key)
        for key in self.floor.keys() - documents.keys() - self._gone:
            ops, floor = history.get(key, ()), self.floor[key]
            deletes = [n for n in range(floor + 1, len(ops) + 1) if ops[n - 1] == "d"]
            if not deletes:
                self.verdict.add("lost", f"document of {key} is gone, and no delete came after v={floor}")
            self.floor[key] = (deletes or [floor])[0] + 1
            self._gone.add(key)
