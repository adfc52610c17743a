"""External versions of documents: those of rows (`rows.versions`), and what to do where they order nothing."""

from __future__ import annotations

from databus.rows.versions import (
    FILE_BITS,
    POSITION_BITS,
    RecordVersions,
    RowVersions,
    record_version,
    source_version,
    versioning,
    versions_of,
)

__all__ = [
    "FILE_BITS",
    "POSITION_BITS",
    "RowVersions",
    "hint_of",
    "record_version",
    "source_version",
    "versioning",
    "versions_of",
]

_KEY_IN_PARTITIONS = (
    "Nothing was overwritten. The key came in several partitions of its topic, and offsets do not say which record is "
    "the newer one: the topic gained partitions, to a number that is no multiple of the former one (keys then move "
    "between the former ones too; let the flow catch up before a topic grows) or while some producers knew the former "
    'ones; its partitioner is not made of the key, or something else writes to the index. With profile="at_least_once" '
    "the document stays as it is until a newer record of its key comes; otherwise index the topic anew into an "
    "index of another name."
)


def hint_of(versions: RowVersions) -> str | None:
    """Return what to do where nothing orders two rows of a document; None for what the error says."""
    return _KEY_IN_PARTITIONS if isinstance(versions, RecordVersions) else None
