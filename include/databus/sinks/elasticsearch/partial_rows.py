"""Rows without all their columns: why they are held back, and when there is no more need to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from databus.core.errors.sink import SinkSettingError
from databus.sinks.elasticsearch.client import translated
from databus.sinks.elasticsearch.documents import RowWrite

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

PARTIAL_IMAGE = "sink_partial_image"
_WHOLE_IMAGES = (
    "SET GLOBAL binlog_row_image=FULL and take SET SESSION binlog_row_image out of the client; the rows logged so far "
    'pass with partial="quarantine", which holds them back: their documents stay as they are until the next whole row.'
)


def cut(policy: Literal["quarantine", "fail"], absent: Sequence[str], place: str, moved_to: str = "") -> str:
    """Return why a row without all its columns is held back.

    Args:
        policy: the sink's `partial`.
        absent: the columns that its after-image lacks; of a delete, that of the insert it stands before.
        place: event id, table and place in the log.
        moved_to: of a delete the key that its row has now.

    Raises:
        SinkSettingError: the policy is to stop the flow.
    """
    lacking = f"the after-image lacks {', '.join(absent)}: its client logs with another binlog_row_image than FULL"
    if policy == "fail":
        moved = "the key changed, and " if moved_to else ""
        raise SinkSettingError(f"{place}: {moved}{lacking}", hint=_WHOLE_IMAGES, code=PARTIAL_IMAGE)
    if moved_to:
        lacking = f"the key became {moved_to}, and {lacking}"
    return f"{PARTIAL_IMAGE}: {lacking}"


@dataclass(frozen=True)
class NewerDocuments:
    """Documents that have become newer than held-back rows, of rows that are moved again.

    A cut row whose document is newer by now is over. The delete of a primary-key update was held back so that the old
    document stands in for the new one: it goes once the new one is newer than the update.

    Attributes:
        client: the client.
        place: connection for messages.
    """

    client: OpenSearch
    place: str

    def among(self, writes: Iterable[RowWrite]) -> set[int]:
        """Return the places in `writes` of the rows that need not be held back any more; read in real time.

        Raises:
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        from opensearchpy.exceptions import OpenSearchException

        held = list(writes)
        if not held:
            return set()
        asked = [{"_index": write.index, "_id": write.other or write.id, "_source": False} for write in held]
        try:
            answer = self.client.mget(body={"docs": asked})
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: reading {len(held)} documents") from error
        return {
            number
            for number, (write, told) in enumerate(zip(held, answer["docs"], strict=True))
            if told.get("found") and told["_version"] > write.version
        }
