"""The text of one stored DECIMAL outside of rows (inside JSON documents); rows are decoded by the kernels.

Wire format: MySQL 8.0 source, strings/decimal.cc (decimal2bin).
"""

from __future__ import annotations

MAX_DIGITS = 81
"""Most digits of a DECIMAL inside JSON: nine groups of nine; there the server counts whole groups, so that a
DECIMAL(65,30) may be stored as (66,30)."""

_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Return a stored DECIMAL as the server writes it, with all digits of its scale.

    Raises:
        ValueError: the bytes are not a DECIMAL(precision, scale).
    """
    whole = precision - scale
    if not 1 <= precision <= MAX_DIGITS or not 0 <= scale <= precision:
        raise ValueError(f"DECIMAL({precision},{scale}) is impossible")
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    if len(data) != sum(_GROUP_BYTES[g] for g in groups):
        raise ValueError(f"{len(data)} bytes are no DECIMAL({precision},{scale})")
    negative = not data[0] & 0x80
    plain = bytes([data[0] ^ 0x80, *data[1:]])
    if negative:
        plain = bytes(b ^ 0xFF for b in plain)
    digits, at = "", 0
    for group in groups:
        size = _GROUP_BYTES[group]
        if group:
            value = int.from_bytes(plain[at : at + size], "big")
            if value >= 10**group:
                raise ValueError("a group of a DECIMAL holds more than its digits")
            digits += f"{value:0{group}d}"
        at += size
    integer = digits[:whole].lstrip("0") or "0"
    return ("-" if negative else "") + integer + (f".{digits[whole:]}" if scale else "")
