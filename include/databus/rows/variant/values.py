"""VARIANT images as Python values."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

_DIGITS = 76
"""Python's default, 28, would round the decimals of more digits that VARIANT and MySQL have."""


def variant_value(image: Mapping[str, bytes]) -> Any:
    """Return what an image holds: dict, str, int, float, Decimal (exact), bytes, None."""
    from pyspark.sql.types import VariantVal

    with decimal.localcontext(prec=_DIGITS):
        return VariantVal(image["value"], image["metadata"]).toPython()
