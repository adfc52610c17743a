"""Names of topics from tables and routes. No client library is needed here: Spark encodes the same names as Columns."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from databus.core.errors import SinkSettingError
from databus.core.tables import TableSchema

ILLEGAL = r"[^A-Za-z0-9._-]"
"""Characters that a topic name may not hold (org.apache.kafka.common.internals.Topic)."""

DDL_TABLE = "_ddl"
"""Stands for the table of a schema change that names none."""

MAX_NAME = 249

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default of max.message.bytes."""


def topic_of(template: str, table: TableSchema, route: str, flow: str) -> str:
    """Return the topic of a table's rows.

    Raises:
        SinkSettingError: the name is empty or too long.
    """
    values = {"database": table.database, "table": table.table or DDL_TABLE, "flow": flow}
    values["route"] = route if table.table else route + DDL_TABLE
    name = re.sub(ILLEGAL, "_", "".join(values[text] if field else text for field, text in template_parts(template)))
    if not name or len(name) > MAX_NAME or name in {".", ".."}:
        raise SinkSettingError(
            f"table {table.full_name}, route {route!r}: topic name {name!r} is not one that Kafka allows",
            hint=f"A name has 1 to {MAX_NAME} characters; change the sink's topic or set a shorter route.",
        )
    return name


def topics_of(template: str, outputs: Sequence[tuple[TableSchema, str]], flow: str) -> list[str]:
    """Return the distinct topics of (table, route) pairs, sorted.

    Raises:
        SinkSettingError: two names that differ meet in one topic only because characters were replaced.
    """
    found: dict[str, tuple[str, str]] = {}
    for table, route in outputs:
        topic = topic_of(template, table, route, flow)
        values = {"database": table.database, "table": table.table, "route": route, "flow": flow}
        exact = "".join(values[text] if field else text for field, text in template_parts(template))
        other, owner = found.setdefault(topic, (exact, table.full_name))
        if other != exact:
            raise SinkSettingError(
                f"{owner} and {table.full_name} would share the topic {topic!r}, because Kafka allows only "
                "letters, digits and ._- in its name",
                hint="Give one of them another route with a Route transform.",
            )
    return sorted(found)


def template_parts(template: str) -> list[tuple[bool, str]]:
    """Split a template into (is a field, field name or literal text), in order."""
    parts: list[tuple[bool, str]] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts += [(False, literal)] if literal else []
        parts += [(True, name)] if name is not None else []
    return parts
