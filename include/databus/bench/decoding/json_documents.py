"""Benchmark of binary JSON to text: small documents per CPU-second, and the time of a large one by its size.

`python -m databus.bench.decoding.json_documents` prints the figures; `measure()` returns them.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from databus.bench.decoding.json_encoder import Opaque, document
from databus.binlog.values.json_binary import json_texts

_DIFFERENT = 2_000
_PRICE = Opaque(246, bytes([12, 2]) + bytes.fromhex("800012d68759"))  # DECIMAL(12, 2): 1234567.89
_WHEN = Opaque(12, (((2024 * 13 + 2) << 5 | 29) << 41 | 7).to_bytes(8, "little"))


def order(r: random.Random) -> dict[str, Any]:
    """A small document with what used to be slow: a DECIMAL, a DATETIME, a double of 17 digits."""
    return {
        "id": r.getrandbits(40),
        "customer": f"Zoë {r.getrandbits(32):x}",
        "price": _PRICE,
        "created": _WHEN,
        "score": r.random(),
        "tags": ["new", "paid"],
        "address": {"city": "Køln", "zip": r.randrange(100_000)},
    }


def _deep(leaves: int) -> Any:
    value: Any = ["leaf"] * 8
    for _ in range(90):
        value = {"k": value}
    return [value] * leaves


LARGE: dict[str, Callable[[int], Any]] = {
    "object_of_keys": lambda size: {f"key_{n:06d}": n for n in range(size // 20)},
    "array_of_doubles": lambda size: [n / 7 for n in range(size // 13)],
    "array_of_opaque": lambda size: [_WHEN, _PRICE] * (size // 32),
    "deep_nesting": lambda size: _deep(size // 1500),
    "long_string": lambda size: 'text with "quotes" and é ' * (size // 26),
    "array_of_strings": lambda size: ["é\n" * 8] * (size // 30),
}
"""Shapes of large documents; each makes one of about so many bytes."""


def _cpu_seconds(*columns: pa.BinaryArray, seconds: float = 0.2) -> list[float]:
    """Return the least CPU time of one pass over each column; they take turns, as others use the machine."""
    best, spent = [float("inf")] * len(columns), 0.0
    while spent < seconds * len(columns):
        for number, column in enumerate(columns):
            start = time.process_time()
            json_texts(column)
            taken = time.process_time() - start
            best[number], spent = min(best[number], taken), spent + taken
    return best


def _column(stored: bytes, copies: int) -> pa.BinaryArray:
    return pa.array([stored] * copies, pa.binary())


def measure(documents: int = 50_000, size: int = 1 << 20, seed: int = 1) -> dict[str, Any]:
    """Return the figures.

    Args:
        documents: about how many small ones.
        size: bytes of the smaller of the two large documents.
        seed: of the small documents.

    Returns:
        `json_small_documents_per_cpu_second`; `json_time_ratio_per_doubling`, shape → time of a document of twice the
        size over that of one of `size`; `json_largest_ratio_per_doubling`; `json_mb_per_cpu_second`, shape → rate.
    """
    r = random.Random(seed)  # noqa: S311 - the same documents each time
    small = pa.array([document(order(r)) for _ in range(_DIFFERENT)] * max(1, documents // _DIFFERENT), pa.binary())
    json_texts(small[:10])  # compiles
    ratios, rates = {}, {}
    for shape, make in LARGE.items():
        one, two = (document(make(n * size), large=True) for n in (1, 2))
        # The same bytes a pass, in twice as many documents: what differs is what the size of a document costs.
        first, second = _cpu_seconds(_column(one, 8), _column(two, 4), seconds=0.5)
        times = [first / 8, second / 4]
        ratios[shape] = round(times[1] / times[0] * (2 * len(one) / len(two)), 3)
        rates[shape] = round(len(two) / times[1] / 1e6, 1)
    return {
        "json_small_documents_per_cpu_second": round(len(small) / _cpu_seconds(small)[0]),
        "json_small_document_bytes": round(small.nbytes / len(small) - struct.calcsize("i")),
        "json_time_ratio_per_doubling": ratios,
        "json_largest_ratio_per_doubling": max(ratios.values()),
        "json_mb_per_cpu_second": rates,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(), indent=2) + "\n")
