"""Canonical rows: equal whichever lane wrote them, different where a value differs."""

from __future__ import annotations

import pytest

from databus.sinks.kafka.held_rows import state_of
from databus.sinks.row_state import FOREIGN, canonical_text, settled, shown


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":2}', '{"b":2, "a":1}'),
        ('{"a":1.50}', '{"a":1.5}'),
        ('{"a":1e3}', '{"a":1000}'),
        ('{"a":1.0}', '{"a":1}'),
        ('{"a":{"y":[1,2.50],"x":null}}', '{"a":{"x":null,"y":[1,2.5]}}'),
        ('{"a":"\\u00fc"}', '{"a":"ü"}'),
        ('{"a":12345678901234567890.12340}', '{"a":12345678901234567890.1234}'),
    ],
)
def test_texts_of_one_row_are_equal(one: str, other: str) -> None:
    assert canonical_text(one) == canonical_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1.5}', '{"a":"1.5"}'),
        ('{"a":null}', "{}"),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":12345678901234567890.1234}', '{"a":12345678901234567890.1235}'),
        ('{"a":true}', '{"a":1}'),
    ],
)
def test_rows_that_differ_are_different(one: str, other: str) -> None:
    assert canonical_text(one) != canonical_text(other)


def test_a_row_is_shown_as_people_write_it() -> None:
    assert shown(canonical_text('{"a":1.50,"b":[2.5,"x"]}')) == {"a": "1.5", "b": ["2.5", "x"]}
    assert canonical_text(None) is None
    with pytest.raises(ValueError, match="no JSON object"):
        canonical_text("[1]")


def test_a_record_leaves_its_row_or_nothing() -> None:
    assert state_of(b'{"before":null,"after":{"id":1,"v":2},"op":"u","ts_ms":5}', "debezium") == b'{"id":1,"v":2}'
    assert state_of(b'{"before":{"id":1},"after":null,"op":"d"}', "debezium") is None
    assert state_of(None, "debezium") is None
    assert state_of(b'{"id":1,"__op":"r","__deleted":false,"__ts_ms":1,"__event_id":"x"}', "row") == b'{"id":1}'
    assert state_of(b'{"id":1,"__op":"d","__deleted":true,"__ts_ms":1,"__event_id":"x"}', "row") is None
    assert state_of(b"not of the flow", "debezium") == FOREIGN + b"not of the flow"
    assert state_of(b'{"id":1}', "row") == FOREIGN + b'{"id":1}'


def test_a_foreign_content_is_shown_as_it_came() -> None:
    assert shown(settled(b"not of the flow")) == "not of the flow"
    assert settled(settled(b'{"b":1.0,"a":1}')) == b'{"a":1,"b":1}'
    assert settled(FOREIGN + b'{"b":1.0}') == FOREIGN + b'{"b":1.0}'
