"""A year of a live flow fits into a gigabyte: measured over some rounds of batches and prunes, and extrapolated."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from databus.records.ledger.merged_pages import MergedPages
from databus.records.recorder import SqlRecorder
from databus.records.store import RecordStore
from databus.records.tables import metadata
from tests.contract.many_partitions import FLOW, history, report_of

PRUNES = 365 * 24
"""Of a year, one an hour."""

LIMIT = 1_000_000_000

WINDOW = 3_600
"""Batches that a prune leaves single, at one a second and `--merge 1h`."""


def size_of(store: RecordStore) -> int:
    """Return the bytes that tables and indexes take, without what a VACUUM gives back."""
    with store.transaction() as connection:
        if store.sqlite:
            pages, free, each = (
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_count", "freelist_count", "page_size")
            )
            return (pages - free) * each
        whole = sa.text("SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relname LIKE 'databus_%' "
                        "AND relkind = 'r'")  # fmt: skip
        return int(connection.execute(whole).scalar_one())


def rows_of(store: RecordStore) -> dict[str, int]:
    """Return table → its rows."""
    with store.transaction() as connection:
        counts = {name: sa.select(sa.func.count()).select_from(table) for name, table in metadata.tables.items()}
        return {name: connection.execute(count).scalar_one() for name, count in counts.items()}


def vacuum(store: RecordStore) -> None:
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM" if store.sqlite else "VACUUM FULL")


class GrowthContract:
    """Tests inherited by the tests of each database."""

    @pytest.fixture
    def recorder(self, url: str) -> Iterator[SqlRecorder]:
        with SqlRecorder.open(url) as recorder:
            yield recorder

    @pytest.mark.parametrize(("partitions", "moved", "batches"), [(12, 4, 100), (10_000, 350, 30)])
    def test_a_year_of_a_live_flow_fits_into_a_gigabyte(
        self, recorder: SqlRecorder, partitions: int, moved: int, batches: int
    ) -> None:
        """Prune twice, each time after all partitions were moved; an hour has more batches, and leaves the same."""
        store, rounds = recorder.store, 2
        entries = history(batches * rounds, partitions, moved, in_turn=True)
        merging, later = MergedPages(store, newest_kept=1), datetime.now(UTC) + timedelta(days=1)
        sizes, rows, grown = [], [], 0
        for number in range(rounds):
            mine = entries[number * batches + 1 : (number + 1) * batches + 1]
            if not number:
                recorder.page(FLOW, entries[:1])
            before = size_of(store)
            recorder.record(*(report_of(entry) for entry in mine))
            recorder.page(FLOW, mine)
            grown = max(grown, size_of(store) - before)
            assert merging.merge(later).gone >= batches - 2
            vacuum(store)
            sizes.append(size_of(store))
            rows.append(rows_of(store))
        assert rows[0] == rows[1]  # nothing stays for each batch, however many a prune merges
        stays, window = (sizes[1] - sizes[0]) * PRUNES, grown / batches * WINDOW
        assert sizes[1] + stays + window < LIMIT, f"{sizes[1]} + {stays} a year + {window:.0f} not merged yet"
