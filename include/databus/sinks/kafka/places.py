"""Places of rows at the source, behind which a batch that is tried again goes on, whatever its log has lost since."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from databus.sinks.kafka.markers import Place


def last_place(rows: pa.RecordBatch) -> Place:
    """Return the place of the last of some encoded rows."""
    file, position, ordinal, part = (rows[name][-1].as_py() for name in ("log", "place", "ordinal", "part"))
    return file, position, ordinal, part


def rows_until(rows: pa.RecordBatch, place: Place) -> int:
    """Return how many of encoded rows, from the first on, stand at a place or before it."""
    if not rows.num_rows:
        return 0
    files = rows["log"].dictionary_encode()
    wanted = len(place[0]), place[0]
    sides = [((len(name), name) > wanted) - ((len(name), name) < wanted) for name in files.dictionary.to_pylist()]
    side = np.array(sides, np.int64)[np.asarray(files.indices)]
    for name, limit in zip(("place", "ordinal", "part"), place[1:], strict=True):
        side = np.where(side == 0, np.sign(np.asarray(rows[name]).astype(np.int64) - limit), side)
    behind = np.flatnonzero(side > 0)
    return int(behind[0]) if len(behind) else rows.num_rows
