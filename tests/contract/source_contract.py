"""Source contract as tests name it; it is shipped as `databus.testing.contract`."""

from databus.testing.contract.source import (
    EVERYTHING,
    IMPATIENT,
    ROW_OPS,
    Row,
    SourceContract,
    SourceUnderTest,
    changes,
    place,
    rows_of,
)

__all__ = [
    "EVERYTHING",
    "IMPATIENT",
    "ROW_OPS",
    "Row",
    "SourceContract",
    "SourceUnderTest",
    "changes",
    "place",
    "rows_of",
]
