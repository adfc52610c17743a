"""A flow beside its tables as the server tells them: what is missing, under which names, and what is no error."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from databus import (
    AddColumn,
    DropColumns,
    Elasticsearch,
    Expectations,
    Extract,
    Filter,
    Flow,
    Hash,
    HashPartition,
    Kafka,
    KafkaTopics,
    Lookup,
    Mask,
    ModuloPartition,
    NotNull,
    Project,
    PythonFunction,
    RenameColumns,
    Route,
    Schema,
    Truncate,
)
from databus.core.errors import ConfigError
from databus.core.findings import Finding, Level
from databus.core.tables.hidden_columns import RememberedHidden
from databus.core.tables.wanted import TablesNow
from databus.ops.health.preflight import require_passed
from databus.ops.tables.compare import compare
from databus.ops.tables.wants import remembered_of, remembered_of_sinks, wants_of
from databus.sources.kafka.rows import tables_of
from tests.unit.ops.told_tables import CUSTOMERS, INDEX, KEYLESS, ORDERS, TOPIC, Told, flow, now, only, wrong


def test_a_flow_that_finds_all_it_asks_for_says_so() -> None:
    spec = flow(
        Filter("amount > 1 AND _op <> 'd'", tables=("shop.orders",)),
        RenameColumns({"amount": "total"}, tables=("shop.orders",)),
        Mask("EMAIL"),
        checks=(NotNull("Total"), Schema("shop.orders", {"Amount": "decimal"})),
        sinks=(INDEX,),
    )
    (finding,) = compare(spec, Told(now())).findings
    assert (finding.level, finding.code) == (Level.OK, "")
    assert "2 tables have what the flow asks for" in finding.message


@pytest.mark.parametrize(
    ("transform", "column"),
    [
        (Filter("emial = 'x'", tables=("shop.orders",)), "emial"),
        (Filter("before.emial <> after.email", tables=("shop.o*",)), "emial"),
        (Mask("emial", tables=("shop.orders",)), "emial"),
        (Hash("emial", tables=("shop.orders",)), "emial"),
        (Project("id", "emial", tables=("shop.orders",)), "emial"),
        (DropColumns("emial", tables=("shop.orders",)), "emial"),
        (RenameColumns({"emial": "mail"}, tables=("shop.orders",)), "emial"),
    ],
    ids=lambda part: getattr(part, "kind", part),
)
def test_an_unknown_column_of_a_transform_is_an_error(transform: Any, column: str) -> None:
    finding = only(flow(transform))
    assert (finding.level, finding.code) == (Level.ERROR, "column_unknown")
    assert finding.message == f"shop.orders has no column {column!r}"
    assert finding.hint.startswith("Did you mean email? Columns of shop.orders: id, Amount, email.")


@pytest.mark.parametrize(
    ("transform", "code"),
    [
        (AddColumn(upper="upper(emial)", tables=("shop.orders",)), "column_unknown"),
        (AddColumn(email="upper(email)", tables=("shop.orders",)), "column_exists"),
        (AddColumn(twice="amount * 2", tables=("shop.orders",)), "column_type_unknown"),
        (Truncate("amount", 4), "column_not_text"),
        (Lookup("amount", {1: "one"}, into="word"), "lookup_key"),
        (Extract("email", path="$.a", into="AMOUNT"), "column_exists"),
        (PythonFunction("no.such:f", inputs=("id",), into="x"), "python_function"),
    ],
    ids=lambda part: getattr(part, "kind", part),
)
def test_a_column_that_cannot_be_computed_is_an_error_before_a_row_is_read(transform: Any, code: str) -> None:
    found = wrong(flow(transform))
    assert {(each.level, each.code) for each in found} == {(Level.ERROR, code)}


def test_a_value_in_clear_of_a_column_that_is_hidden_later_is_warned_of() -> None:
    only_orders = {"tables": ("shop.orders",)}
    finding = only(flow(AddColumn(upper="upper(email)", **only_orders), Mask("email")))
    assert (finding.level, finding.code) == (Level.WARN, "hidden_column_computed")
    assert finding.message == "column upper is computed from email in clear: mask email stands behind it"
    assert wrong(flow(Mask("email"), AddColumn(upper="upper(email)", **only_orders))) == []
    assert wrong(flow(AddColumn(upper="upper(email)", **only_orders), Mask("email", "upper"))) == []
    assert wrong(flow(Truncate("email", 3), Mask("email"))) == []


def test_a_filter_of_all_tables_needs_its_column_in_each() -> None:
    finding = only(flow(Filter("amount > 1")))
    assert finding.message == "shop.customers has no column 'amount'"


@pytest.mark.parametrize("transform", [Mask("mail"), Hash("mail"), DropColumns("mail"), Project("mail")])
def test_a_column_that_no_table_has_would_do_nothing_in_silence(transform: Any) -> None:
    finding = only(flow(transform))
    assert (finding.level, finding.message) == (Level.ERROR, "no table of the flow has a column 'mail'")
    assert "Did you mean email?" in finding.hint


def test_a_sink_of_tables_without_a_flows_column_is_no_fault_of_the_flow() -> None:
    routed = {"conn_id": "k", "topic": "w", "name": "w", "routes": ("shop.customers",)}
    hashed = Hash("email")
    assert not wrong(flow(hashed, sinks=(TOPIC, Kafka(**routed, transforms=(Project("id", "phone"),)))))
    finding = only(flow(hashed, sinks=(TOPIC, Kafka(**routed, transforms=(Mask("email"),)))))
    assert (finding.subject, finding.code) == ("transform mask email", "column_unknown")
    # A fault of the flow is told once, and brings none about behind it.
    renamed = RenameColumns({"mail": "post"}, tables=("shop.customers",))
    finding = only(flow(renamed, sinks=(TOPIC, Kafka(**routed, transforms=(Mask("post"),)))))
    assert finding.message == "shop.customers has no column 'mail'"


def test_a_column_has_the_name_that_the_transforms_before_gave_it() -> None:
    renamed = RenameColumns({"email": "mail"})
    assert not wrong(flow(renamed, Mask("mail"), checks=(NotNull("mail", tables=("shop.orders",)),)))
    assert only(flow(renamed, Mask("email", tables=("shop.orders",)))).subject == "transform mask email"
    assert only(flow(Mask("mail", tables=("shop.orders",)), renamed)).message == "shop.orders has no column 'mail'"
    dropped = only(flow(DropColumns("email"), checks=(NotNull("email", tables=("shop.o*",)),)))
    assert (dropped.level, dropped.subject) == (Level.ERROR, "check not_null(email)@shop.o*")


def test_checks_and_expectations_are_compared() -> None:
    assert only(flow(checks=(NotNull("mail"),))).message == "no table of the flow has a column 'mail'"
    drift = only(flow(checks=(Schema("shop.orders", {"amount": "decimal"}),)))
    assert drift.message == "shop.orders has no column 'amount'"  # the log's own case counts there
    by_row = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "mail"}}
    over_rows = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "sum", "min_value": 1}}
    found = wrong(flow(expectations=Expectations([by_row, over_rows], tables=("shop.orders",))))
    assert [f.message for f in found] == [
        "shop.orders has no column 'mail'",
        "no table of the flow has a column 'sum'",
    ]


def test_a_transform_that_does_not_tell_ends_what_can_be_compared() -> None:
    class Other(Mask):
        kind = "other"

        def columns_after(self, changes: Any) -> Any:
            raise NotImplementedError

    assert not wrong(flow(Other("email"), Mask("nothing")))
    assert only(flow(Mask("nothing"), Other("email"))).subject == "transform mask nothing"


def test_other_refusals_of_a_transform_are_told_too() -> None:
    assert only(flow(Mask("id", tables=("shop.orders",)))).code == "key_column_hidden"
    binary = only(flow(Mask("scan", keep_last=2)))
    assert (binary.level, "binary" in binary.message) == (Level.ERROR, True)


def test_row_filters_of_the_source_are_compared() -> None:
    filters = (
        ModuloPartition(tables="shop.orders", column="email", modulus=2, remainders=(0,)),
        HashPartition(tables="shop.log", partitions=2, keep=(0,)),
    )
    found = wrong(flow(source={"row_filters": filters}), now(ORDERS, KEYLESS))
    assert {f.code for f in found} == {"row_filter"}
    assert ["only integers" in found[0].message, "no primary key" in found[1].message] == [True, True]


def test_a_bad_column_of_a_row_filter_is_one_error() -> None:
    filters = (ModuloPartition(tables="shop.orders", column="custmer", modulus=2, remainders=(0,)),)
    finding = only(flow(source={"row_filters": filters}, tables=("shop.orders",)), now(ORDERS))
    assert finding.code == "row_filter"
    assert "custmer" in finding.message


def test_what_a_finding_says_is_not_said_by_a_warning_or_by_its_subject_too(caplog: pytest.LogCaptureFixture) -> None:
    finding = only(flow(DropColumns("emial")))
    assert "no table of the flow has a column 'emial'" in finding.message
    assert caplog.text == ""
    key = only(flow(DropColumns("id", tables=("shop.orders",))))
    assert key.subject.startswith("transform drop")
    assert key.message.startswith("id is part of the primary key")
    repeated = Finding("table a", Level.ERROR, "is not there", "Make it.", "source_table_missing")
    with pytest.raises(ConfigError) as refused:
        require_passed(flow(), [repeated, repeated])
    assert refused.value.message.count("is not there") == 1


def test_a_table_without_a_key_is_an_error_where_a_sink_needs_one() -> None:
    told = now(ORDERS, KEYLESS)
    finding = only(flow(sinks=(TOPIC, INDEX)), told)
    assert (finding.level, finding.code) == (Level.ERROR, "sink_no_primary_key")
    assert "shop.log" in finding.message
    assert "exclude_tables" in finding.hint
    assert not wrong(flow(), told)
    assert not wrong(flow(sinks=(INDEX.model_copy(update={"routes": ("shop.orders",)}),)), told)
    assert not wrong(flow(Route({"shop.log": "away"}), sinks=(INDEX.model_copy(update={"routes": ("shop.*",)}),)), told)


def test_a_table_that_does_not_exist_is_an_error_with_the_nearest_names() -> None:
    told = now(ORDERS, known=("shop.customers", "shop.orders", "crm.people"), unmatched=("shop.custmers",))
    spec = flow(tables=("shop.orders", "shop.custmers"))
    finding = only(spec, told)
    assert (finding.level, finding.code) == (Level.ERROR, "source_table_missing")
    assert finding.subject == "shop (db:3306): table shop.custmers"
    assert finding.hint.startswith("Did you mean shop.customers?")
    assert 'on_missing_table="wait"' in finding.hint
    waits = flow(tables=("shop.orders", "shop.custmers"), source={"on_missing_table": "wait"})
    assert only(waits, told).level is Level.WARN
    hidden = replace(told, tells=lambda _: False)
    assert (only(spec, hidden).level, "GRANT SELECT" in only(spec, hidden).hint) == (Level.WARN, True)


def test_tables_of_a_transform_that_the_flow_does_not_have() -> None:
    told = now(known=("shop.orders", "shop.customers", "crm.people"))
    missing = only(flow(Mask("email", tables=("shop.orders", "shop.order"))), told)
    assert (missing.level, missing.message) == (Level.ERROR, "there is no table 'shop.order'")
    assert "Did you mean shop.orders?" in missing.hint
    routed = only(flow(Route({"shop.ordres": "orders"})), told)
    assert (routed.level, routed.code) == (Level.ERROR, "source_table_missing")
    for elsewhere in ("crm.people", "crm.*"):
        assert only(flow(Mask("email", tables=("shop.orders", elsewhere))), told).level is Level.WARN


def test_topics_are_compared_as_tables_are() -> None:
    spec = KafkaTopics(conn_id="east", topics=("orders", "shop.*"), value_format="json", fields={"price": "bigint"})
    (orders, _) = tables_of(spec, ["orders"])
    reads = flow(source={}).model_copy(update={"source": spec, "transforms": (Filter("price > 1"),)})
    known = ("orders", "east.orders")
    assert [(f.level, f.code) for f in wrong(reads, now(orders, known=known, unmatched=("shop.*",)))] == [
        (Level.WARN, "source_topic_missing")
    ]
    misspelled = reads.model_copy(update={"source": spec.model_copy(update={"topics": ("ordres",)})})
    missing = only(misspelled, now(orders, known=known, unmatched=("ordres",)))
    assert (missing.level, missing.code) == (Level.ERROR, "source_topic_missing")
    assert missing.subject.endswith("topic ordres")
    assert missing.hint.startswith("Did you mean orders? Correct `topics` of the source")
    assert 'on_missing_topic="wait"' in missing.hint
    waits = misspelled.model_copy(update={"source": misspelled.source.model_copy(update={"on_missing_topic": "wait"})})
    assert only(waits, now(orders, known=known, unmatched=("ordres",))).level is Level.WARN
    unknown = only(reads.model_copy(update={"transforms": (Filter("prize > 1"),)}), now(orders, known=known))
    assert "has no column 'prize'" in unknown.message
    # A topic that is named by a transform may be one that a pattern finds later.
    routed = reads.model_copy(update={"transforms": (Filter("price > 1", tables=("east.shop.later",)),)})
    assert only(routed, now(orders, known=known)).level is Level.WARN


def test_tables_of_which_single_columns_are_shown_are_not_compared() -> None:
    told = now(partly_shown=frozenset({"shop.customers"}))
    finding = only(flow(Mask("phone_number"), Filter("nothing > 1", tables=("shop.customers",))), told)
    assert (finding.level, finding.code) == (Level.WARN, "source_partly_shown")


def messages(spec: Flow, told: TablesNow | None = None) -> list[tuple[str, str]]:
    return [(f.subject.partition(" ")[0], f.message) for f in wrong(spec, told)]


def test_all_independent_faults_are_told_at_once() -> None:
    here = ("shop.orders",)
    spec = flow(
        Filter("stauts = 'paid'", tables=here),
        Mask("emial", tables=here),
        Mask("id", tables=here),
        Hash("phnoe", tables=("shop.*",)),
        Mask("scan", keep_last=2),
        checks=(NotNull("amuont", tables=here), NotNull("emial", tables=here)),
        tables=("shop.*", "shop.custmers"),
    )
    found = wrong(spec, now(ORDERS, CUSTOMERS, unmatched=("shop.custmers",)))
    assert [(f.subject.split()[0], f.message) for f in found] == [
        ("shop", "the table does not exist"),
        ("transform", "shop.orders has no column 'stauts'"),
        ("transform", "shop.orders has no column 'emial'"),
        ("transform", "id is part of the primary key of shop.orders, which stands in every record"),
        ("transform", "shop.orders has no column 'phnoe'"),
        ("transform", "shop.customers has no column 'phnoe'"),
        ("transform", "scan of shop.customers is binary and has no last characters"),
        ("check", "shop.orders has no column 'amuont'"),
        ("check", "shop.orders has no column 'emial'"),
    ]
    assert all(f.level is Level.ERROR and f.hint for f in found)
    assert all("emial" not in f.hint for f in found)
    with pytest.raises(ConfigError) as refused:
        require_passed(spec, found)
    assert all(f.message in refused.value.message for f in found)


@pytest.mark.parametrize(
    ("transforms", "told"),
    [
        ((RenameColumns({"emial": "mail"}, tables=("shop.o*",)), Mask("mail", tables=("shop.orders",))), ["emial"]),
        ((RenameColumns({"emial": "mail"}), Mask("mail"), Hash("mail")), ["emial"]),
        ((Project("emial", tables=("shop.o*",)), Mask("email", tables=("shop.orders",))), ["emial"]),
        ((Project("emial", tables=("shop.o*",)), Mask("amuont", tables=("shop.orders",))), ["emial", "amuont"]),
        ((Project("emial"), Mask("email", "phone")), ["emial"]),
        ((RenameColumns({"emial": "Amount"}, tables=("shop.o*",)), Mask("phnoe")), ["emial"]),
        ((Mask("mail", tables=("shop.o*",)), RenameColumns({"email": "mail"}), Hash("sum")), ["mail", "sum"]),
        ((Mask("mail", tables=("shop.o*",)), RenameColumns({"email": "mail"}), Hash("mail")), ["mail"]),
        ((DropColumns("emial", tables=("shop.o*",)), Mask("email")), ["emial"]),
    ],
)
def test_a_fault_brings_no_other_about(transforms: tuple[Any, ...], told: list[str]) -> None:
    assert [m.partition("column ")[2].strip("'") for _, m in messages(flow(*transforms))] == told


def test_a_table_that_lost_a_hidden_column_is_told_before_a_batch_comes_to_its_rows() -> None:
    spec = flow(DropColumns("email"))
    lost = now(ORDERS, replace(CUSTOMERS, columns=CUSTOMERS.columns[:2]))
    remembered = RememberedHidden({"shop.orders": {"email"}, "shop.customers": {"email"}})
    (finding,) = (f for f in compare(spec, Told(lost), wants_of(spec), remembered).findings if f.level is not Level.OK)
    assert (finding.code, finding.level) == ("hidden_column_gone", Level.WARN)
    assert "shop.customers" in finding.subject
    assert 'former=("shop.customers.email",)' in finding.hint
    mended = flow(DropColumns("email", former=("shop.customers.email",)))
    assert all(f.level is Level.OK for f in compare(mended, Told(lost), wants_of(mended), remembered).findings)


def test_a_table_that_lost_a_column_that_a_sink_hides_is_told() -> None:
    lost = Told(now(ORDERS, replace(CUSTOMERS, columns=CUSTOMERS.columns[:2])))
    remembered = RememberedHidden({"shop.customers": {"email"}})
    of_sinks = {"w": SimpleNamespace(load=lambda _: remembered)}
    hides: Any = SimpleNamespace(load=lambda _: RememberedHidden(), of_sink=of_sinks.__getitem__)
    asked: Any = SimpleNamespace(hidden_columns=hides)

    def told(*routes: str, **former: Any) -> list[Finding]:
        own = DropColumns("email", **former)
        spec = flow(sinks=(TOPIC, Kafka(conn_id="k", topic="w", name="w", routes=routes, transforms=(own,))))
        known = remembered_of(spec, asked), remembered_of_sinks(spec, asked)
        findings = compare(spec, lost, wants_of(spec), *known).findings
        return [f for f in findings if f.code == "hidden_column_gone"]

    (finding,) = told("shop.*")
    assert finding.level is Level.WARN
    assert 'former=("shop.customers.email",)' in finding.hint
    assert told("shop.*", former=("shop.customers.email",)) == told("shop.orders") == []


def test_a_table_without_a_valid_name_of_an_index_is_told() -> None:
    odd = replace(ORDERS, table="a:b")
    search = Elasticsearch(conn_id="e", index="{table}")
    spec = flow(sinks=(search,))
    finding = only(spec, now(ORDERS, odd))
    assert (finding.level, finding.subject, finding.code) == (Level.ERROR, "sink elasticsearch", "sink_setting")
    assert finding.message.startswith("index template '{table}' gives 'a:b' for table shop.a:b")
    assert only(spec, now(ORDERS, odd), wants_of(spec)).level is Level.WARN
    assert not wrong(flow(Route({"shop.a:b": "ab"}), sinks=(search.model_copy(update={"index": "{route}"}),)), now(odd))
    assert not wrong(flow(sinks=(search.model_copy(update={"routes": ("shop.orders",)}),)), now(ORDERS, odd))
    assert not wrong(flow(), now(ORDERS, odd))
