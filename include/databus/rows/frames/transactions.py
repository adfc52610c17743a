"""Transactions of rows as Spark sees them: what `rows.transaction_orders` says, as columns and rows of a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from databus.core.events import BEGIN, END, TABLE_ORDER, TOTAL_ORDER, Op
from databus.core.transactions import BEGIN_ORDINAL, END_ORDINAL, NAMELESS_TABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLLECTIONS = "transaction_collections"
"""Column array<struct<data_collection string, event_count bigint>>: of an end, the rows written by table, by name."""

HELD = "transaction_held"
"""Column bigint: of an end, the rows that checks hold back; null elsewhere."""

_OF_A_ROW = ("database", "table", "key", "before", "after", "statement", "flags", "absent", "other_key")


def with_boundaries(rows: DataFrame, held: Column) -> DataFrame:
    """Return the rows that are not held back, numbered in their transactions, and a row for each boundary of these.

    Rows have `TOTAL_ORDER` and `TABLE_ORDER` beside their columns, null in those that a snapshot read. A boundary has
    op `BEGIN` or `END`, its `event_id`, and null for database, table and images.

    Args:
        rows: the rows that one sink takes, with `ROW_COLUMNS`.
        held: which of them are held back.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    alone = F.when(F.col("op") == Op.READ.value, F.col("event_id"))
    name = F.concat_ws(".", "database", F.when(F.col("table") == "", NAMELESS_TABLE).otherwise(F.col("table")))
    facts = rows.withColumns({"_alone": alone, "_name": name, "_held": held})
    written = F.when(F.col("_held"), 0).otherwise(1)
    whole = Window.partitionBy("log", "place", "_alone")
    table = Window.partitionBy("log", "place", "_alone", "_name")
    order = ("ordinal", "part")
    none = F.col("_alone").isNotNull()
    numbered = facts.withColumns(
        {
            TOTAL_ORDER: F.when(
                ~none, F.sum(written).over(whole.orderBy(*order).rowsBetween(Window.unboundedPreceding, 0))
            ),
            TABLE_ORDER: F.when(
                ~none, F.sum(written).over(table.orderBy(*order).rowsBetween(Window.unboundedPreceding, 0))
            ),
            "_of_table": F.sum(written).over(table),
            "_number": F.row_number().over(whole.orderBy(*order)),
            "_rows": F.count(F.lit(1)).over(whole),
            HELD: F.sum(F.lit(1) - written).over(whole),
        }
    )
    collection = F.struct(F.col("_name").alias("data_collection"), F.col("_of_table").alias("event_count"))
    counted = numbered.withColumn(
        COLLECTIONS, F.sort_array(F.collect_set(F.when(F.col("_of_table") > 0, collection)).over(whole))
    )
    kinds = F.filter(
        F.array(
            F.when(~none & (F.col("_number") == 1), F.lit(BEGIN)),
            F.when(~F.col("_held"), F.lit("")),
            F.when(~none & (F.col("_number") == F.col("_rows")), F.lit(END)),
        ),
        lambda kind: kind.isNotNull(),
    )
    spread = counted.withColumn("_kind", F.explode(kinds))
    kind = F.col("_kind")
    boundary, ends = kind != "", kind == END
    head = F.regexp_replace("event_id", ":[^:]*:[^:]*$", "")
    return spread.withColumns(
        {
            "event_id": F.when(boundary, F.concat_ws(":", head, F.lower(kind))).otherwise(F.col("event_id")),
            "op": F.when(boundary, kind).otherwise(F.col("op")),
            "ordinal": F.when(ends, END_ORDINAL).when(boundary, BEGIN_ORDINAL).otherwise(F.col("ordinal")),
            "part": F.when(boundary, F.lit(0)).otherwise(F.col("part")).cast("smallint"),
            COLLECTIONS: F.when(ends, F.col(COLLECTIONS)),
            HELD: F.when(ends, F.col(HELD)),
            **{column: F.when(~boundary, F.col(column)) for column in (*_OF_A_ROW, TOTAL_ORDER, TABLE_ORDER)},
        }
    ).drop("_alone", "_name", "_held", "_of_table", "_number", "_rows", "_kind")
