"""Computed columns against Spark: random rows through random chains of all kinds, in both lanes."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from databus import (
    AcceptedValues,
    AddColumn,
    Cast,
    DropColumns,
    Extract,
    Filter,
    Flow,
    Hash,
    InRange,
    Lookup,
    Mask,
    Memory,
    Mock,
    NotNull,
    Project,
    PythonFunction,
    RenameColumns,
    Truncate,
)
from databus.binlog.segments.large_values import LargeValueReference
from databus.core.errors import DatabusError
from databus.core.flow_specs import TransformSpec
from databus.expressions.compiled import compile_expression
from databus.expressions.errors import SparkNeededError
from databus.expressions.text.json_paths import JsonPath
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import sql_string
from databus.runtime.direct.reasons import table_lanes
from databus.runtime.tables.column_lineage import written_tables
from databus.sinks.memory import clear
from databus.testing.table_batches import Unrepresentable, table
from tests.spark.test_compiled_rows import HIDDEN, WIDE, differing, direct, flow_of, placed, through_spark, utc
from tests.spark.test_direct_lane import TYPES, Recorder, changes, comparable, moved, quarantined
from tests.unit.expressions.json_documents import PATHS, document

pytestmark = pytest.mark.spark

Build = Callable[..., FrameChanges]

__all__ = ["utc"]

T = table(
    "shop.t",
    {"id": "int", "v": "int", "w": "varchar(9)", "note": "text", "doc": "json", "day": "date", "m": "decimal(12,2)"},
)
WORDS = (None, "a", "12", "-7", "300", "2024-02-29", "true", "é😀x", "", Unrepresentable(b"\xff\xfe"))
DOCUMENTS = (
    None,
    '{"n": 7, "s": "x"}',
    '{"n": "12", "s": {"t": [1, null, "\\u00e9\\n"]}}',
    '{"n": null, "s": [[], {"k": "v"}, true]}',
    '[{"n": 1}]',
    '{"s": "\\ud83d\\ude00", "n": 99999}',
    Unrepresentable(LargeValueReference('{"n":"segment"}')),
)


def shorter(values: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(values, 0, 2)


def both(numbers: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.add(numbers, pc.cast(pc.utf8_length(texts), pa.int32()))


def image(r: random.Random, key: int) -> dict[str, Any]:
    whole = {
        "id": key,
        "v": r.choice([None, 1, 4, 6, 9]),
        "w": r.choice(WORDS),
        "note": r.choice(["n", None, "", "éßΣ", "x" * 40, Unrepresentable(b"\xff\xfe")]),
        "doc": r.choice(DOCUMENTS),
        "day": r.choice([None, dt.date(2024, 2, 29), dt.date(1, 1, 1), Unrepresentable("0000-00-00")]),
        "m": r.choice([None, Decimal("2.50"), Decimal("-0.01"), Decimal("9999999999.99"), Decimal(7)]),
    }
    lacking = r.choice([(), (), (), ("v",), ("w", "doc"), ("v", "w", "note", "doc", "day", "m")])
    return {name: value for name, value in whole.items() if name not in lacking}


def some_changes(r: random.Random, rows: int) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    for _ in range(rows):
        key = r.randrange(6)
        before, after = image(r, key), image(r, key if r.random() < 0.8 else key + 1)
        found.append(r.choice([(None, after), (before, after), (before, after), (before, None)]))
    return found


def names_of(specs: Sequence[TransformSpec]) -> dict[str, str]:
    """Return name → Spark type of the columns that transforms leave."""
    (found,) = written_tables(flow_of(specs), (T,))
    return {column.name: column.spark_type for column in found.columns}


def one_more(r: random.Random, specs: Sequence[TransformSpec], number: int) -> TransformSpec | None:
    """Return one more transform over columns as those so far leave them, None where none of its kind fits."""
    types = names_of(specs)
    texts = [name for name, kind in types.items() if kind == "string"]
    whole = [name for name, kind in types.items() if kind in ("int", "bigint", "smallint")]
    exact = [name for name, kind in types.items() if kind.startswith("decimal")]
    free = [name for name in types if name != "id"]
    cut = [name for name in ("w", "note") if types.get(name) == "string"]
    new, on_failure = f"x{number}", r.choice(["hold", "null"])

    def text() -> str:
        return r.choice(texts)

    def expression() -> str:
        choices = [f"upper({text()})", f"concat({text()}, '/', _table)", f"{text()} IS NULL", "_ts_ms", "'7'"]
        choices += [f"length({text()})", f"CAST(coalesce({text()}, 'é') AS binary)", f"try_cast({text()} AS date)"]
        choices += [f"try_cast({text()} AS decimal(9,3))", f"CASE WHEN {text()} = 'a' THEN {text()} END"]
        choices += [f"get_json_object({text()}, '$.s')"]
        if whole:
            n = r.choice(whole)
            choices += [f"{n} > 3", f"CAST(try_divide({n}, 4) AS double)", f"CAST({n} AS string)", f"{n} + 1L"]
            choices += [f"CAST(try_divide({n}, {n} - 4) AS decimal(20,6))", f"if({n} = 4, NULL, {text()})"]
        if exact:
            choices += [f"CAST({r.choice(exact)} * 1.19 AS decimal(38,3))", f"CAST({r.choice(exact)} AS double)"]
        if types.get("day") == "date":
            choices += ["CAST(day AS timestamp_ntz)", "CAST(day AS timestamp)", "year(day)", "coalesce(day, day)"]
        return r.choice(choices)

    def cast() -> TransformSpec:
        name = r.choice(free)
        to = ["string", "int", "double", "boolean", "decimal(10,1)", "date", "bigint", "binary", "timestamp_ntz"]
        return Cast({name: r.choice(to)}, on_failure=on_failure)

    def extracted() -> TransformSpec:
        path = r.choice(["$.n", "$.s", "$.s.t", "$.s.t[2]", "$.s[1].k", "$[0].n", "$.s[0]", "$.s.t[1]"])
        kind = r.choice(["string", "string", "int", "double", "boolean"])
        return Extract(text(), path=path, into=new, type=kind, on_failure=on_failure)

    def looked_up() -> TransformSpec:
        missing = r.choice(["null", "hold"])
        if whole and r.random() < 0.5:
            return Lookup(r.choice(whole), {4: "1.5", 6: "2"}, into=new, type="decimal(5,2)", missing=missing)
        table = {"a": "x'\"\\", "12": "é😀", "": "empty"}
        return Lookup(text(), table, into=new, missing=missing)

    def called() -> TransformSpec:
        if whole and r.random() < 0.5:
            return PythonFunction(f"{__name__}:both", inputs=(r.choice(whole), text()), into=new, type="bigint")
        name = text()
        return PythonFunction(f"{__name__}:shorter", inputs=(name,), into=r.choice([new, name]))

    def filtered() -> TransformSpec:
        name = r.choice(free)
        conditions = [f"{name} IS NOT NULL OR v > 5", f"{text()} <> 'a' OR {text()} IS NULL", "id <> 2 OR _op = 'd'"]
        conditions += [f"length({text()}) > 1", f"before.{text()} <=> after.{text()}"]
        found = r.choice(conditions)
        return Filter(found if "v" in types else found.replace(" OR v > 5", ""), leaving=r.choice(["delete", "ignore"]))

    makers: list[Callable[[], TransformSpec]] = [
        *[lambda: AddColumn({new: expression()})] * 4,
        *[cast] * 2,
        extracted,
        looked_up,
        called,
        filtered,
        lambda: Truncate(r.choice(cut), r.choice([1, 3, 20])) if cut else AddColumn({new: "1"}),
        lambda: Mask(r.choice(free), keep_last=r.choice([0, 2]), value="x"),
        lambda: Hash(r.choice(free)),
        lambda: RenameColumns({r.choice(free): f"r{number}"}),
        lambda: DropColumns(r.choice(free)),
    ]
    return r.choice(makers)()


def chain(r: random.Random, length: int) -> list[TransformSpec]:
    """Return random transforms that are compiled, each over what those before it leave."""
    found: list[TransformSpec] = []
    while len(found) < length:
        try:
            spec = one_more(r, found, len(found))
            (lane,) = table_lanes(flow_of([*found, spec]), [T])
        except (DatabusError, IndexError):
            continue
        if lane.lane == "direct":
            found.append(spec)
    return found


@pytest.mark.parametrize(("chains", "longest"), [(8, 3), (150, 7)])
def test_both_lanes_compute_the_same(changes_of: Build, chains: int, longest: int) -> None:
    """Random chains over flagged values, partial images, key updates and updates that cross a filter.

    Spark takes several times as long over one more value that is made of computed ones.
    """
    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(chains):
        specs = chain(r, r.randint(2, longest))
        rows = placed(r, T, some_changes(r, 80))
        try:
            ours = direct(rows, specs)
        except SparkNeededError:  # bytes that are no text, under a condition on the column itself
            seen["left to Spark"] += 1
            continue
        found = differing(names_of(specs), ours, through_spark(changes_of, rows, specs))
        assert not found, (seed, specs, found[:3])
        seen.update(("held " + row["unjudged"].partition("(")[0]) if row["unjudged"] else row["op"] for row in ours)
        seen.update(spec.kind for spec in specs)
    assert seen["left to Spark"] < chains // 2, seed
    if chains > 100:
        kinds = {"add_column", "cast", "extract", "lookup", "python_function", "truncate"}
        assert kinds | {f"held {kind}" for kind in kinds} | set("cudf") <= seen.keys(), (seed, seen)


def test_both_lanes_compute_from_columns_of_every_type(changes_of: Build) -> None:
    """Copies, casts and conditions over each type that a column can have, hidden behind."""
    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    rows = placed(r, WIDE, changes(r, 200))
    names = {name: f"`{name}`" for name in TYPES if name != "id"}
    copies = AddColumn({f"c{k}": f"coalesce({name}, {name})" for k, name in enumerate(names.values())})
    texts = {"t": "string", "u64": "decimal(38,0)", "money": "double", "day": "string", "at": "date", "wide": "string"}
    specs = [copies, Cast(texts), AddColumn(s="concat(took, doc, kind)"), Hash("c0", "c3", "c5"), Mask("c9", "s")]
    kinds = {**TYPES, **{f"c{k}": TYPES[name] for k, name in enumerate(names)}, "money": "double"}
    del kinds["c9"]  # masked
    found = differing(kinds, direct(rows, specs), through_spark(changes_of, rows, specs))
    assert not found, (seed, found[:2])
    assert {"u64", "day"} <= set(HIDDEN)


@pytest.mark.parametrize("documents", [400, 20_000])
def test_values_inside_json_are_those_of_spark(spark: Any, documents: int) -> None:
    """Whole and broken texts; with numbers that Java writes anew, as doubles."""
    seed = random.SystemRandom().getrandbits(32)
    r = random.Random(seed)
    texts = [document(r, floats=k % 4 == 0) for k in range(documents)]
    sql = [f"get_json_object(t, {sql_string(path)}) AS p{k}" for k, path in enumerate(PATHS)]
    sql += [f"try_cast(get_json_object(t, {sql_string(path)}) AS double) AS d{k}" for k, path in enumerate(PATHS)]
    theirs = spark.createDataFrame([(text,) for text in texts], "t string").selectExpr(*sql).toArrow().to_pylist()
    compared = 0
    for k, path in enumerate(PATHS):
        for digits in (False, True):
            known = JsonPath.of(path, digits=digits)
            assert known is not None
            for text, row in zip(texts, theirs, strict=True):
                try:
                    (ours,) = known.values(pa.array([text])).to_pylist()
                except SparkNeededError:
                    continue
                compared += 1
                wanted = row[f"{'d' if digits else 'p'}{k}"]
                if digits:
                    (ours,) = AS_DOUBLE.evaluate({("v", "row"): pa.array([ours], pa.string())}, 1).to_pylist()
                assert ours == wanted, (seed, path, text, ours, wanted)
    assert compared > documents * len(PATHS)


AS_DOUBLE = compile_expression("try_cast(v AS double)", lambda *_: "string")


FLOW = Flow(
    name="lanes",
    source=Mock(
        tables=("shop.orders", "shop.people"),
        rows=300,
        columns={"customer_id": "bigint", "status": "varchar", "amount": "decimal(12,2)", "weight": "double"},
        null_ratio=0.2,
        seed=5,
    ),
    transforms=(
        AddColumn(gross="CAST(amount * 1.19 AS decimal(14,2))"),
        Filter("gross > 300 OR status IS NULL", tables=("shop.orders",)),
        Lookup("status", {"new": "1", "paid": "2"}, into="rank", type="int", missing="hold", tables=("shop.people",)),
        Cast(customer_id="string"),
        PythonFunction(f"{__name__}:shorter", inputs=("status",), into="short"),
        Mask("status", keep_last=1),
        Project("id", "gross", "status", "short", "rank", "customer_id"),
    ),
    checks=(
        NotNull("short"),
        InRange("gross", minimum="100"),
        AcceptedValues("customer_id", ("1", "2"), severity="warn"),
    ),
    sinks=(Memory(store="lanes"), Memory(name="people", store="people", routes=("shop.people",))),
)


@pytest.fixture
def store() -> Iterator[None]:
    yield
    clear("lanes")
    clear("people")


@pytest.mark.timeout(900)
def test_a_flow_delivers_counts_and_holds_back_the_same(spark: Any, store: None) -> None:
    ours, our_reports = moved(spark, FLOW)
    our_held = Recorder.last.held
    theirs, their_reports = moved(spark, FLOW.model_copy(update={"lane": "spark"}))

    assert list(map(comparable, ours)) == list(map(comparable, theirs))
    assert [report.tables for report in our_reports] == [report.tables for report in their_reports]
    assert [report.checks for report in our_reports] == [report.checks for report in their_reports]
    assert [quarantined(row) for row in our_held] == [quarantined(row) for row in Recorder.last.held]
    assert {"lookup(status)"} < {row.cause for row in our_held}
    assert [r.columns for r in our_reports] == [r.columns for r in their_reports]
    after = [json.loads(record["value"])["after"] for record in ours]
    assert {type(each["customer_id"]) for each in after if each} <= {str, type(None)}
