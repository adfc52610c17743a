"""Violation bits: one column of bits beside the images, a bit for each row check of the flow; light to import."""

from __future__ import annotations

MARKS = "marks"
"""Name of the column that carries them: bit i stands for the flow's i-th row check."""

UNJUDGED = "unjudged"
"""Name of the column that says why a filter cannot judge a row ("filter_lacks(amount)"), null where all could."""

MOST_CHECKS = 63
