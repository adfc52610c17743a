"""Kernels of Debezium's values beside plain Python, and values that its forms cannot hold."""

from __future__ import annotations

import base64
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from databus.formats.debezium_values import DebeziumValues
from databus.testing.table_batches import batch, table
from tests.unit.formats.encoded_messages import messages


def _literals(kind: str, array: pa.Array, values: DebeziumValues | None = None, **options: Any) -> list[Any]:
    schema = table("shop.t", {"a": kind}, ())
    made = batch(schema, [(None, {"a": value}) for value in array.to_pylist()], **options)
    found = (values or DebeziumValues()).literals(made, 0).to_pylist()
    return [None if text is None else json.loads(text) for text in found]


def _bytes(number: int) -> str:
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def test_decimals_are_the_shortest_bytes_of_their_unscaled_integers() -> None:
    r = random.Random(1)
    ends = [sign * (1 << bits) + add for bits in range(0, 126, 7) for sign in (-1, 1) for add in (-1, 0, 1)]
    numbers = [*ends, *(r.randrange(-(10**38) + 1, 10**38) >> r.randrange(0, 126) for _ in range(500))]
    array = pa.array([*(Decimal(number) for number in numbers), None], pa.decimal128(38, 0))
    assert _literals("decimal(38,0)", array) == [*map(_bytes, numbers), None]


def test_a_double_is_the_nearest_one() -> None:
    numbers = [Decimal(f"{n}e-2") for n in (255, -1, 10**9 + 7, 9_999_999_999)]
    found = _literals("decimal(12,2)", pa.array(numbers, pa.decimal128(12, 2)), DebeziumValues(decimal="double"))
    assert found == [float(number) for number in numbers]


def test_unsigned_values_above_a_long_are_told() -> None:
    ((_, message),) = messages("every_type", types="debezium")
    assert (message["after"]["c6"], message["source"]["flags"]) == (-1, ["after.c6:wrapped"])
    ((_, exact),) = messages("every_type", types="debezium", bigint_unsigned="precise")
    assert (exact["after"]["c6"], "flags" in exact["source"]) == (_bytes(2**64 - 1), False)


def test_a_date_that_no_calendar_has_is_null_and_told() -> None:
    ((_, message),) = messages("odd", types="debezium")
    assert (message["after"], message["source"]["flags"]) == ({"id": 1, "born": None}, ["after.born:invalid_date"])
