"""Hashes of texts as the reference implementation of SipHash-2-4-128 has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from databus.rows.siphash import hashes

KEY = bytes(range(16))

VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    63: "5150d1772f50834a503e069a973fbd7c",
}
"""Bytes 0, 1, 2, … up to a length → hash (vectors_sip128 of the reference implementation)."""


@pytest.mark.parametrize(("size", "expected"), VECTORS.items())
def test_hashes_are_those_of_the_reference(size: int, expected: str) -> None:
    assert hashes(pa.array([bytes(range(size))]), KEY).tobytes().hex() == expected


def test_each_value_of_a_slice_has_its_own_hash_and_null_has_none() -> None:
    column = pa.array([b"left out", b"x" * 70, None, b"", b"x" * 70, b"y"])
    found = hashes(column.slice(1), KEY)
    alone = [hashes(pa.array([value]), KEY)[0].tolist() for value in (b"x" * 70, b"", b"y")]
    assert found.tolist() == [alone[0], [0, 0], alone[1], alone[0], alone[2]]
    assert hashes(pa.array(["x" * 70]), KEY)[0].tolist() == alone[0]
    assert hashes(pa.array([b"y"]), bytes(16))[0].tolist() != alone[2]
