"""The mock source keeps the source contract, and its rows are decided by its options alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from databus.core.batching import Batching
from databus.core.errors import ConfigError, OffsetInvalidError
from databus.core.positions.offsets import Offset, SequenceOffset
from databus.core.protocols import Source
from databus.sources.mock.spec import Mock
from databus.testing.contract.source import EVERYTHING, SourceContract, changes, rows_of


class MockSubject:
    def __init__(self, spec: Mock):
        self._spec = spec

    def open(self) -> Source:
        return self._spec.open(None, None)  # type: ignore[arg-type]

    def grow(self) -> None:
        """All rows are there from the start."""

    @property
    def begin(self) -> Offset:
        return SequenceOffset(0)


class TestMockContract(SourceContract):
    @pytest.fixture
    def subject(self) -> MockSubject:
        return MockSubject(Mock(rows=203, tables=("shop.orders", "shop.items"), rows_per_transaction=7))


def read(spec: Mock) -> list[dict[str, object]]:
    source = MockSubject(spec).open()
    plan = source.plan(SequenceOffset(0), EVERYTHING)
    assert plan is not None
    return rows_of(source, plan)


def test_rows_fold_to_a_consistent_table() -> None:
    state: dict[bytes, object] = {}
    for row in read(Mock(rows=200)):
        key = row["key"]
        assert isinstance(key, bytes)
        if row["op"] == "c":
            assert key not in state
        else:
            assert row["before"] == state[key]
        if row["op"] == "d":
            del state[key]
        else:
            state[key] = row["after"]
    assert len(state) == 100


def test_seed_decides_the_values() -> None:
    assert read(Mock(rows=50)) == read(Mock(rows=50))
    assert read(Mock(rows=50)) != read(Mock(rows=50, seed=1))


def test_rate_bounds_the_head() -> None:
    since = datetime.now(UTC) - timedelta(seconds=100)
    source = MockSubject(Mock(rows_per_second=10, rows_per_transaction=5, since=since)).open()
    head = source.latest_offset()
    assert isinstance(head, SequenceOffset)
    assert 200 <= head.sequence < 210
    plan = source.plan(SequenceOffset(0), Batching(max_rows=100))
    assert plan is not None
    assert plan.more
    assert changes(rows_of(source, plan)) == plan.rows == 100


def test_start_past_the_end_is_refused() -> None:
    source = MockSubject(Mock(rows=10)).open()
    with pytest.raises(OffsetInvalidError, match="past the end"):
        source.plan(SequenceOffset(2), EVERYTHING)
    assert [f.code for f in source.preflight(SequenceOffset(2))] == ["source_offset_invalid"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "rows_per_second"),
        ({"rows": 1, "columns": {"x": "uuid"}}, "unknown type"),
        ({"rows": 1, "columns": {"id": "int"}}, "key"),
        ({"rows": 1, "tables": ("orders",)}, "database.table"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Mock(**options)
