"""Picked columns: a column's value in the image that a row reads it from, of chosen rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from databus.runtime.direct.batch_images import BatchImages
from databus.runtime.direct.column_programs import ColumnProgram

Images = npt.NDArray[np.int32]


def picked_images(images: BatchImages, column: ColumnProgram, before: Images, after: Images, image: str) -> Images:
    """Return the image that each row reads a column from, -1 where none carries it.

    Args:
        images: of the batch.
        column: the column.
        before: image of each row, -1 without.
        after: the same of the after-image.
        image: "before", "after", or "row" for the after-image where it carries the column, else the before-image.
    """
    carried = images.carried(column)
    from_before = np.where(carried[before], before, np.int32(-1))
    from_after = np.where(carried[after], after, np.int32(-1))
    found = {"before": from_before, "after": from_after}.get(image)
    return np.where(from_after >= 0, from_after, from_before) if found is None else found


def picked_values(images: BatchImages, column: ColumnProgram, before: Images, after: Images, image: str) -> pa.Array:
    """Return the value of each row, null where no image carries the column; see `picked_images`.

    Raises:
        DatabusError: a value that is picked fails, as it does in Spark.
    """
    index = picked_images(images, column, before, after, image)
    needed = np.zeros(images.batch.images.num_rows + 1, np.bool_)
    needed[index] = True
    return images.values(column, needed[:-1]).take(pa.array(index.clip(0), mask=index < 0))
