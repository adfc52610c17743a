"""Search evidence for the ledger: its indices are there, filled, and hold nothing newer than is committed.

There are no markers: documents carry the log position of their row as version. Only the newest writes of an index are
looked at, and deleted documents show no version: this finds an index that is gone, emptied or ahead, not a lost row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from databus.core.positions.offsets import BinlogOffset
from databus.core.state.evidence import CommittedState, Evidence
from databus.rows.versions import versioning
from databus.sinks.elasticsearch.client import translated
from databus.sinks.elasticsearch.tally import EMPTIED

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

_NEWEST = 100
"""Documents looked at per index: those written last."""


def evidence(client: OpenSearch, sink: str, place: str, ledger: CommittedState) -> Evidence:
    """Compare the indices of a sink with what the ledger says.

    Raises:
        SinkUnavailableError: no answer.
        SinkAccessError: rights are missing.
    """
    from opensearchpy.exceptions import NotFoundError, OpenSearchException

    at, plan = ledger.checkpoint, ledger.plan
    places = (plan.range.end if plan else at.offset, at.replay_until, at.closed_until, plan and plan.closed_until)
    stands = [place for place in places if isinstance(place, BinlogOffset)]
    problems: list[str] = []
    expected = _documents(ledger)
    for index, documents in sorted(expected.items()):
        try:
            client.indices.refresh(index=index)
            found = client.search(
                index=index,
                body={"size": _NEWEST, "sort": [{"_seq_no": "desc"}], "version": True, "track_total_hits": True},
                params={"_source": "false"},
            )
        except NotFoundError:
            problems.append(f"index {index} is gone, batches up to {ledger.checkpoint.batch} wrote to it")
            continue
        except OpenSearchException as error:
            raise translated(error, place) from error
        problems += _index_problems(index, documents, found["hits"], stands)
    looked_at = f"{len(expected)} indices: there, filled, newest {_NEWEST} writes not ahead (no markers to compare)"
    return Evidence(f"sink {sink}", (looked_at,), tuple(problems))


def _documents(ledger: CommittedState) -> dict[str, int]:
    """Return index → documents that creations and deletions leave at least, by the receipts.

    A statement that empties a table begins anew: what an attempt that was repeated took away stands in no receipt.
    """
    totals: Counter[str] = Counter()
    for _, receipt in ledger.receipts:
        for index, facts in dict(receipt.get("outputs") or {}).items():
            if index:
                if facts.get(EMPTIED):
                    totals[index] = 0
                    continue
                totals[index] += facts.get("created", 0) - facts.get("deleted", 0)
    return dict(totals)


def _index_problems(index: str, documents: int, hits: dict[str, Any], stands: Sequence[BinlogOffset]) -> list[str]:
    problems = []
    if documents > 0 and not hits["total"]["value"]:
        problems.append(f"index {index} is empty, {documents} documents more were created than deleted")
    if stands:
        newest, committed = max(((versioning(at)(at.file, at.pos), at) for at in stands), key=lambda known: known[0])
        ahead = [hit for hit in hits["hits"] if hit["_version"] > newest]
        if ahead:
            problems.append(
                f"index {index} is ahead: a document has version {ahead[0]['_version']}, {committed} is version "
                f"{newest}: ZooKeeper was restored from an older copy, or something else wrote"
            )
    return problems
