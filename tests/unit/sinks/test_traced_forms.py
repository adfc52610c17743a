"""Records in other connectors' forms are found by the place of their change."""

from __future__ import annotations

from typing import Any

import pytest

from databus.core.trace import ChangeSelector
from databus.sinks.kafka.headers import header_lists
from databus.sinks.kafka.tracing.record import is_other, number_in_log, sighting_of
from tests.unit.formats.encoded_messages import encoded


class Record:
    """What is asked of a record of Kafka."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: list[tuple[str, str]]):
        self._key, self._value, self._headers = key, value, headers

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return [(name, text.encode()) for name, text in self._headers]

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 0, -1


def records(**options: Any) -> list[Any]:
    found = []
    for batch in encoded("orders", **options):
        told = header_lists(batch) or [[("event_id", event)] for event in batch["event_id"].to_pylist()]
        rows = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), told, strict=True)
        found += [Record(key, value, headers) for key, value, headers in rows]
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"envelope": "maxwell"},
        {"types": "debezium", "schemas": True},
        {"envelope": "canal", "headers": ("event_id", "position")},
        {"envelope": "row", "headers": ("event_id", "position")},
    ],
)
def test_a_place_leads_to_the_records_of_its_transaction(options: dict[str, Any]) -> None:
    every = records(**options)
    changes = [sighting_of(record, "kafka", "east").change for record in every]
    assert (changes[0].file, changes[0].position, changes[0].ordinal) == ("mysql-bin.000002", 645, 0)
    numbers = [number_in_log(change) for change in changes]
    assert None not in numbers
    assert numbers == sorted(numbers, key=lambda number: number or 0)
    selector = ChangeSelector(file="mysql-bin.000002", position=645, table="shop.orders")
    met = [not is_other(record, selector) and selector.matches(c) for record, c in zip(every, changes, strict=True)]
    assert met == [change.position == 645 for change in changes]
    assert any(met)
    assert not all(met)


def test_a_record_of_somebody_else_has_no_place() -> None:
    change = sighting_of(Record(None, b"x", [("position", "12:30")]), "kafka", "east").change  # type: ignore[arg-type]
    assert (change.file, change.position) == ("", None)
