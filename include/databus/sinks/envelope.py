"""Envelopes as Spark Columns: Debezium-style JSON and the plain row, one text per row change.

Each is described by a JSON Schema in `schemas/`. Numbers are exact: VARIANT decimals and integers become JSON numbers
with all their digits. A column absent from the row image is absent from the JSON; NULL is null. Binary is base64. Times
are the ISO texts of the row (ADR 0002), not Debezium's epoch numbers. A text column whose bytes are no text of its
character set is base64 too, and named in the row's flags (ADR 0008).

Only `pyspark.sql.functions` is used, so the same code runs on a classic and on a Connect session.
"""

from __future__ import annotations

import functools
import json
from importlib import metadata, resources
from typing import Any

from databus.core.events import Op
from databus.core.positions.offsets import BinlogOffset
from databus.core.state.plan import Plan, SourcePlan

_KEEP_NULLS = {"ignoreNullFields": "false"}

ENVELOPES = ("debezium", "row")

FLAGS_FIELD = "__flags"
"""Member of a plain row or document that lists the row's flags (`rows.flags`); absent without any."""

ROW_FIELDS = ("__op", "__deleted", "__ts_ms", "__event_id", FLAGS_FIELD)
"""Members of a plain row beside the row's columns."""


def schema(envelope: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an envelope's value."""
    text = resources.files("databus.sinks").joinpath("schemas", f"{envelope}_envelope.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def connector(plan: Plan | SourcePlan) -> str:
    """Return `source.connector`: "mysql" or "mariadb" for a binlog, else the offset's kind."""
    end = plan.range.end
    return end.flavor if isinstance(end, BinlogOffset) else end.kind


@functools.cache
def code_version() -> str:
    """Return `source.version`."""
    # Not databus.__version__: the package's root names every kind, and siblings may not import each other.
    try:
        return metadata.version("databus")
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        return "0+unknown"


def transaction_id() -> Any:
    """Return the Column of the transaction's id: GTID, without one FILE:POS of its end; null in a snapshot's rows."""
    from pyspark.sql import functions as f

    place = f.concat_ws(":", f.col("log"), f.col("place").cast("string"))
    found = f.when(f.col("transaction") != "", f.col("transaction")).otherwise(place)
    return f.when(f.col("op") != f.lit(Op.READ.value), found)


def debezium(plan: Plan, *, transaction: Any = None) -> Any:
    """Return the Column of the Debezium-style envelope over rows of `ROW_COLUMNS`.

    The shape is Debezium's (documentation of the MySQL connector, "Data change events", without the schema half), with
    `source.event_id`, and `source.flags` of a row that has flags, added. `ts_ms` at the top is the plan's
    clock, so that a retry writes the same bytes.

    Args:
        plan: names the flow and gives the top-level `ts_ms`.
        transaction: another `transaction`, a Column of text or of a struct.
    """
    from pyspark.sql import functions as f

    snapshot = f.col("op") == f.lit(Op.READ.value)
    source = (
        f.lit(code_version()).alias("version"),
        f.lit(connector(plan)).alias("connector"),
        f.lit(plan.live_flow).alias("name"),
        f.col("ts_ms"),
        f.when(snapshot, "true").otherwise("false").alias("snapshot"),
        f.col("database").alias("db"),
        f.col("table"),
        f.col("server_id"),
        f.when(f.col("transaction") != "", f.col("transaction")).alias("gtid"),
        f.col("log").alias("file"),
        f.col("place").alias("pos"),
        f.col("ordinal").alias("row"),
        f.col("statement").alias("query"),
        f.col("event_id"),
    )
    flags = f.col("flags")
    if transaction is None:
        number = (f.col("ordinal") + f.lit(1)).alias("total_order")
        transaction = f.when(~snapshot, f.struct(transaction_id().alias("id"), number))

    def envelope(*members: Any) -> Any:
        return f.to_json(
            f.struct(
                f.col("before"),
                f.col("after"),
                f.struct(*members).alias("source"),
                f.col("op"),
                f.lit(int(plan.clock.timestamp() * 1000)).cast("bigint").alias("ts_ms"),
                transaction.alias("transaction"),
            ),
            _KEEP_NULLS,
        )

    # Few rows are flagged: the others do not carry a member of nulls.
    return f.when(flags.isNull(), envelope(*source)).otherwise(envelope(*source, flags))


def row() -> Any:
    """Return the Column of the plain row: the columns plus __op, __deleted, __ts_ms, __event_id and any __flags.

    A delete carries its before image, or the key alone where the log has no image.
    """
    from pyspark.sql import functions as f

    image = f.to_json(f.coalesce(f.col("after"), f.col("before")))
    body = f.coalesce(image, f.col("key").cast("string"), f.lit("{}"))
    facts = f.to_json(
        f.struct(
            f.col("op").alias("__op"),
            (f.col("op") == f.lit(Op.DELETE.value)).alias("__deleted"),
            f.col("ts_ms").alias("__ts_ms"),
            f.col("event_id").alias("__event_id"),
        ),
        _KEEP_NULLS,
    )
    # Two JSON objects become one: "{a}" and "{b}" → "{a,b}".
    joined = f.concat(f.substr(body, f.lit(1), f.length(body) - f.lit(1)), f.lit(","), f.substr(facts, f.lit(2)))
    return with_flags(f.when(body == f.lit("{}"), facts).otherwise(joined))


def with_flags(document: Any) -> Any:
    """Return the Column of a JSON object with `__flags` added where the row has flags; NULL stays NULL."""
    from pyspark.sql import functions as f

    flags = f.col("flags")
    added = f.concat(f.lit(f'"{FLAGS_FIELD}":'), f.to_json(flags), f.lit("}"))
    comma = f.when(document == f.lit("{}"), f.lit("")).otherwise(f.lit(","))
    flagged = f.concat(f.substr(document, f.lit(1), f.length(document) - f.lit(1)), comma, added)
    return f.when(flags.isNull(), document).otherwise(flagged)
