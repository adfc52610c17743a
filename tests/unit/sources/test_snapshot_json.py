"""JSON as a server sends it beside the same documents from the log: one text."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest

from databus.bench.decoding.json_encoder import document
from databus.binlog.values.json_binary import json_texts
from databus.binlog.values.json_sent import sent_json_texts


def sent(value: Any) -> str:
    """Write a document as MySQL does: blanks behind commas and colons, exponents outside of 10^±15."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {sent(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(sent, value)) + "]"
    if not isinstance(value, float) or value == 0:
        return json.dumps(value, ensure_ascii=False)
    exponent = math.floor(math.log10(abs(value)))
    if "e" not in (text := repr(value)):
        return text if exponent < 15 else f"{value:.17g}" if "e" in f"{value:.17g}" else f"{value:e}".replace("e+", "e")
    digits, _, power = text.partition("e")
    if -16 < int(power) < 0:
        bare = digits.lstrip("-").replace(".", "")
        return ("-" if value < 0 else "") + "0." + "0" * (-int(power) - 1) + bare
    return f"{digits}e{int(power)}"


def drawn(r: random.Random, depth: int = 0) -> Any:
    kinds = [
        lambda: r.randrange(-(1 << 63), 1 << 63),
        lambda: r.choice([1, -1]) * r.random() * 10.0 ** r.randint(-30, 14),
        lambda: 10.0 ** r.choice([-20, -9, -5, -4, 3, 20, 300]),
        lambda: r.choice([True, False, None, 0.0, 0]),
        lambda: r.choice(["", "a, b: 1e5", 'q"1e5 \\ ', "\\", '\\"', "é\n\u0001", "0.00001"]),
        lambda: [drawn(r, depth + 1) for _ in range(r.randint(0, 4))],
        lambda: {f"k {n}": drawn(r, depth + 1) for n in range(r.randint(0, 4))},
    ]
    return r.choice(kinds[: 5 if depth > 3 else 7])()


def test_documents_are_those_of_the_log() -> None:
    r = random.Random(7)
    values = [drawn(r) for _ in range(3000)]
    ours = sent_json_texts(pa.array([None if n % 9 == 0 else sent(v) for n, v in enumerate(values)], pa.string()))
    theirs = json_texts(pa.array([None if n % 9 == 0 else document(v) for n, v in enumerate(values)], pa.binary()))
    assert [pair for pair in zip(ours.to_pylist(), theirs.to_pylist(), strict=True) if pair[0] != pair[1]][:3] == []


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("0.0000100", "0.0000100"),  # zeros at the end: a DECIMAL
        ("0.00001234567890123456789", "0.00001234567890123456789"),
        ("0.00001", "1e-05"),  # either: counts as double
        ("-0.0000012", "-1.2e-06"),
        ("10.00001", "10.00001"),
        ("1.50", "1.50"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1e15", "1000000000000000.0"),
        ("-2.5e-17", "-2.5e-17"),
        ("1e20", "1e+20"),
    ],
)
def test_numbers(text: str, right: str) -> None:
    sent_text, ours = f'{{"1e5": [ {text},{text} ]}}', f'{{"1e5":[{right},{right}]}}'
    assert sent_json_texts(pa.array([sent_text])).to_pylist() == [ours]


def test_columns_without_documents() -> None:
    assert sent_json_texts(pa.array([], pa.string())).to_pylist() == []
    assert sent_json_texts(pa.array([None, None], pa.string())).to_pylist() == [None, None]
