"""How marks of row images travel: one column of bits, a bit for each row check of the flow."""

from __future__ import annotations

MARKS = "marks"
"""Name of the column that carries them: bit i stands for the flow's i-th row check."""

MOST_CHECKS = 63
