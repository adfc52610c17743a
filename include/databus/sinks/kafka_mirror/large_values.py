"""Large values of a mirror: the value of a message that is too large goes to the segment store.

Key, timestamp, partition, place in the order and headers stay. In the value's place stands the reference (see
`databus.binlog.segments.large_values`), and the header `databus.claim` with the hash of the bytes marks it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from databus.binlog.segments.large_values import LargeValueStore
from databus.rows.raw_records import CLAIM, Header, RawRecords

REFERENCE_BYTES = 2_000
"""Upper bound of what a message holds in its value's place, with the header."""


def with_references(batch: RawRecords, rows: Iterable[int], root: str) -> RawRecords:
    """Return the records with references for the values of these rows; the values are on disk then.

    Args:
        batch: records of one partition.
        rows: numbers of those that are too large; tombstones among them stay.
        root: the segment store's folder or fsspec URI.

    Raises:
        SegmentStoreFullError: there is no room for a value; nothing of its record has gone anywhere.
        SourceUnavailableError: the store cannot be used.
    """
    store = LargeValueStore(root)
    values, headers = list(batch.values), list(batch.headers)
    for row in rows:
        value = values[row]
        if value is None:
            continue
        mark: Header = (CLAIM, hashlib.sha256(value).hexdigest().encode())
        values[row] = store.put(np.frombuffer(value, np.uint8)).encode()
        headers[row] = [*(headers[row] or ()), mark]
    return replace(batch, values=values, headers=headers)
