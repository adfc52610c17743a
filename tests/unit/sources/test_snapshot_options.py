"""Options of snapshots: bad ones are refused by name, and what is stored of them comes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from databus import Flow, MysqlBinlog, Noop, SnapshotOptions
from databus.core.errors import ConfigError
from databus.core.stored_form import canonical_json
from databus.registry import flow_from_json

PLAIN = MysqlBinlog(conn_id="m", tables=("shop.*",))
EACH = SnapshotOptions(
    where={"shop.orders": "id > 1000 AND state = 'open'"},
    first=("shop.customers", "re:shop\\.o.*"),
    chunk_rows=500,
    threads=4,
    max_rows_per_second=20_000,
    pause_above_threads_running=40,
    pause_above_replica_lag=timedelta(seconds=2.5),
    replicas=("mysql_replica",),
    read_from="mysql_reports",
)


LAG = ("pause_above_replica_lag", "replicas")


def flow_of(source: MysqlBinlog) -> Flow:
    return Flow(name="orders", source=source, sinks=(Noop(),))


@pytest.mark.parametrize(
    "options", [EACH, SnapshotOptions(), *(SnapshotOptions(**{name: value}) for name, value in EACH if name not in LAG)]
)
def test_options_come_back_from_what_is_stored(options: SnapshotOptions) -> None:
    flow = flow_of(PLAIN.model_copy(update={"snapshot_options": options}))
    assert flow_from_json(flow.to_json()) == flow


def test_a_source_without_options_is_stored_as_before_and_keeps_its_hash() -> None:
    assert "snapshot_options" not in PLAIN.to_json()
    with_options = PLAIN.model_copy(update={"snapshot_options": EACH})
    assert with_options.to_json()["snapshot_options"]["where"] == EACH.where
    assert flow_of(with_options).spec_hash("1") == flow_of(PLAIN).spec_hash("1")


def test_options_that_say_nothing_are_left_out() -> None:
    assert SnapshotOptions(threads=2).stored() == {"threads": 2}
    assert EACH.stored()["pause_above_replica_lag_s"] == 2.5
    assert canonical_json(EACH.stored()) == canonical_json(SnapshotOptions.from_stored(EACH.stored()).stored())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"chunk_rows": 0}, "chunk_rows"),
        ({"threads": 0}, "threads"),
        ({"threads": 33}, "threads"),
        ({"max_rows_per_second": 0}, "max_rows_per_second"),
        ({"first": "shop.orders"}, "a tuple of them is wanted"),
        ({"first": ("orders",)}, "names no database"),
        ({"where": {"orders": "id > 1"}}, "write DATABASE.TABLE"),
        ({"where": {"shop.*": "id > 1"}}, "write DATABASE.TABLE"),
        ({"where": {"shop.orders": " "}}, "leave it out"),
        ({"where": {"shop.orders": "id > 1; DROP TABLE x"}}, "it holds ';'"),
        ({"where": {"shop.orders": "(id > 1"}}, "not closed"),
        ({"pause_above_threads_running": 0}, "pause_above_threads_running"),
        ({"pause_above_replica_lag": 5, "replicas": ("r",)}, "a timedelta is wanted"),
        ({"pause_above_replica_lag": timedelta(seconds=5)}, "go together"),
        ({"replicas": ("r",)}, "go together"),
        ({"rate": 3}, "unknown option 'rate'"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match="SnapshotOptions: ") as refused:
        SnapshotOptions(**options)
    assert said in refused.value.message


def test_a_condition_of_a_table_that_the_flow_has_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"snapshot_options\.where: other\.t is none of the flow's tables"):
        MysqlBinlog(conn_id="m", tables=("shop.*",), snapshot_options=SnapshotOptions(where={"other.t": "id > 1"}))


def test_a_table_to_read_first_that_the_flow_has_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"snapshot_options\.first: shop\.order is none of the flow's tables"):
        MysqlBinlog(conn_id="m", tables=("shop.orders",), snapshot_options=SnapshotOptions(first=("shop.order",)))
    any_of = SnapshotOptions(first=("shop.o*", "shop.orders"))
    assert MysqlBinlog(conn_id="m", tables=("shop.orders",), snapshot_options=any_of).snapshot_options is any_of


def test_connections_of_replicas_are_behind_the_source_s_own() -> None:
    source = PLAIN.model_copy(update={"snapshot_options": EACH})
    assert source.conn_ids() == (("m", "mysql"), ("mysql_replica", "mysql"), ("mysql_reports", "mysql"))
    assert PLAIN.conn_ids() == (("m", "mysql"),)


def test_tables_that_come_first_keep_their_order() -> None:
    tables = ["shop.a", "shop.customers", "shop.items", "shop.orders"]
    assert sorted(tables, key=EACH.place_of) == ["shop.customers", "shop.orders", "shop.a", "shop.items"]


def test_a_condition_that_a_person_gave_stands_before_the_flow_s_own() -> None:
    assert EACH.conditions({"shop.orders": "", "shop.items": "x"}) == {**EACH.where, "shop.items": "x"}
    assert EACH.conditions({"shop.orders": "id = 7"}) == {"shop.orders": "id = 7"}
    one = SnapshotOptions(read_from="mysql_reports")
    assert PLAIN.model_copy(update={"snapshot_options": one}).conn_ids()[1:] == (("mysql_reports", "mysql"),)


def test_rows_of_a_replica_are_read_ahead_too() -> None:
    assert (SnapshotOptions(read_from="mysql_reports").bounded, EACH.bounded) == (False, True)
