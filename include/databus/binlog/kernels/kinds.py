"""Kinds of column values in a row image: the numbers by which the kernels dispatch."""

RAW1, RAW2, INT3, UINT3, RAW4, RAW8 = range(1, 7)
"""Little-endian numbers copied as they are (integers, FLOAT, DOUBLE), and 3-byte integers."""
YEAR, DATE, DATETIME, TIMESTAMP, TIME = range(7, 12)
"""DATETIME, TIMESTAMP and TIME as written since MySQL 5.6; `meta` is the number of fractional digits."""
OLD_DATETIME, OLD_TIMESTAMP, OLD_TIME = range(12, 15)
"""The same before MySQL 5.6."""
DECIMAL, DECIMAL_TEXT = 15, 16
"""DECIMAL up to 38 digits as a 128-bit number, above as text; `meta` is the precision, `meta2` the scale."""
STRING, PADDED = 17, 18
"""Bytes after a length of `meta` bytes; PADDED ones are filled up with zero bytes to `meta2`."""
ENUM, SET, BIT = range(19, 22)
"""`meta` bytes: an index, a little-endian bit set, a big-endian number."""

WIDTH = {
    RAW1: 1,
    RAW2: 2,
    INT3: 4,
    UINT3: 4,
    RAW4: 4,
    RAW8: 8,
    YEAR: 2,
    DATE: 4,
    DATETIME: 8,
    TIMESTAMP: 8,
    TIME: 8,
    OLD_DATETIME: 8,
    OLD_TIMESTAMP: 8,
    OLD_TIME: 8,
    DECIMAL: 16,
    DECIMAL_TEXT: 0,
    STRING: 0,
    PADDED: 0,
    ENUM: 2,
    SET: 8,
    BIT: 8,
}
"""Bytes per value of the Arrow data buffer; 0 for values of variable length."""
