"""Case mappings that ICU 77 (Unicode 16, of Spark 4.1) has and an older Unicode, such as Python 3.11's, has not.

A Python of Unicode 16 has them too, and they change nothing there. `tests/spark/expressions/test_texts.py` compares
all characters; characters that a later Unicode adds are letters without cases here, as in Spark.
"""

from __future__ import annotations

_PAIRS = (
    *((0x19B, 0xA7DC), (0x264, 0xA7CB), (0x1C8A, 0x1C89), (0xA7CD, 0xA7CC), (0xA7DB, 0xA7DA)),
    *((lower, lower - 0x20) for lower in range(0x10D70, 0x10D86)),
)
"""(lower, upper)"""

_CASED = "1C89-1C8A A7CB-A7CD A7DA-A7DC 10D50-10D65 10D70-10D85 1DF25-1DF2A "
_IGNORED = (
    "897 ECE 10D4E 10D69-10D6D 10D6F 10EFC-10EFF 11241 113BB-113C0 113CE 113D0 113D2 113E1-113E2 "
    "11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455 1611E-16129 1612D-1612F "
    "16D40-16D42 16D6B-16D6C 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF"
)
"""Characters that the rule of the final sigma passes over (Case_Ignorable), in ranges."""
_WITHOUT_CASE = "1171E"


def _ranges(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += range(int(first, 16), int(last or first, 16) + 1)
    return found


UPPER = {lower: chr(upper) for lower, upper in _PAIRS}
"""Code point → its upper case."""

LOWER = {upper: chr(lower) for lower, upper in _PAIRS}
"""Code point → its lower case."""

TITLE = UPPER
"""Code point → its title case."""

CONTEXT = {
    **dict.fromkeys(_ranges(_CASED), "a"),
    **dict.fromkeys(_ranges(_IGNORED), "\u0301"),
    **dict.fromkeys(_ranges(_WITHOUT_CASE), "!"),
}
"""Code point → a character that means the same for the final sigma."""
