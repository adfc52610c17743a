"""Rows that a transform holds back: values that became NULL, flagged inputs, numbers that are not finite."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from databus.runtime.direct.compiled_transforms.batch_images import BatchImages, ImageNumbers, Mask
from databus.runtime.direct.compiled_transforms.column_programs import ColumnProgram


@dataclass(frozen=True)
class Failing:
    """Values of a column that became NULL and were not.

    Attributes:
        name: the column as the cause names it.
        old: the column before, or what has a value where that has one.
        made: what came of it.
    """

    name: str
    old: ColumnProgram
    made: ColumnProgram

    def of_images(self, images: BatchImages, needed: Mask) -> Mask:
        """Return bool[images + 1], where that is so."""
        made = images.values(self.made, needed).is_valid().to_numpy(zero_copy_only=False)
        return np.append(images.given(self.old, needed) & ~made, False)


@dataclass(frozen=True)
class FlaggedInputs:
    """Flagged inputs of a computed column.

    Attributes:
        name: the column as the cause names it.
        sources: the stored columns among the inputs.
        but: reasons of flags that do not count.
    """

    name: str
    sources: tuple[str, ...]
    but: tuple[str, ...]

    def of_images(self, images: BatchImages, needed: Mask) -> Mask:  # noqa: ARG002 - flags are known of all
        """Return bool[images + 1], which hold one."""
        return images.flagged(self.sources, self.but)


@dataclass(frozen=True)
class NotFinite:
    """Values of a computed column that are NaN or infinite.

    Attributes:
        name: the column as the cause names it.
        made: its values.
    """

    name: str
    made: ColumnProgram

    def of_images(self, images: BatchImages, needed: Mask) -> Mask:
        """Return bool[images + 1], where that is so."""
        finite = pc.fill_null(pc.is_finite(images.values(self.made, needed)), True)
        return np.append(~finite.to_numpy(zero_copy_only=False), False)


@dataclass(frozen=True)
class TableHolding:
    """Rows of a table that a transform holds back.

    Attributes:
        kind: of the transform.
        columns: what of its columns counts, in order.
    """

    kind: str
    columns: tuple[Failing | FlaggedInputs | NotFinite, ...]

    def causes(self, images: BatchImages, before: ImageNumbers, after: ImageNumbers) -> dict[int, str]:
        """Return row → cause: "cast(amount, code)".

        Args:
            images: of the batch.
            before: image of each row, -1 without.
            after: the same of the after-image.
        """
        needed = np.zeros(images.batch.images.num_rows + 1, np.bool_)
        needed[before] = needed[after] = True
        found: dict[int, list[str]] = {}
        for column in self.columns:
            of_image = column.of_images(images, needed[:-1])
            if of_image.any():
                for row in np.flatnonzero(of_image[before] | of_image[after]).tolist():
                    found.setdefault(row, []).append(column.name)
        return {row: f"{self.kind}({', '.join(names)})" for row, names in found.items()}
