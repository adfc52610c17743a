"""MariaDB's UUID, INET4 and INET6 as text."""

from __future__ import annotations

import ipaddress
import random
import uuid

import pyarrow as pa
import pytest

from databus.binlog.values.logical_types import inet6_text, logical_texts


@pytest.mark.parametrize(
    ("digits", "text"),
    [  # as MariaDB 10.11.19 shows them
        ("00" * 16, "::"),
        ("00" * 15 + "01", "::1"),
        ("00" * 12 + "01020304", "::1.2.3.4"),
        ("00" * 10 + "ffff01020304", "::ffff:1.2.3.4"),
        ("20010db8" + "00" * 11 + "01", "2001:db8::1"),
        ("00001300770000a70000640000dd0042", "::1300:7700:a7:0:6400:dd:42"),
        ("ff00ff00000000ffff000000cf00007e", "ff00:ff00::ff:ff00:0:cf00:7e"),
        ("0001000200000000000500000000000a", "1:2::5:0:0:a"),
        ("11" * 14 + "0000", "1111:1111:1111:1111:1111:1111:1111::"),
        ("ff" * 16, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ],
)
def test_inet6_is_written_as_the_server_does(digits: str, text: str) -> None:
    assert inet6_text(bytes.fromhex(digits)) == text


def test_texts_stand_for_their_bytes() -> None:
    r = random.Random(3)
    values = [bytes(r.choice([0, 0, 1, 255, r.getrandbits(8)]) for _ in range(16)) for _ in range(2000)]
    assert [ipaddress.IPv6Address(inet6_text(v)).packed for v in values] == values
    array = pa.array([None, *values], pa.binary())
    assert logical_texts(array, "uuid").to_pylist() == [None, *(str(uuid.UUID(bytes=v)) for v in values)]
    four = [v[:4] for v in values]
    texts = logical_texts(pa.array(four, pa.binary()), "inet4").to_pylist()
    assert [ipaddress.IPv4Address(t).packed for t in texts] == four
