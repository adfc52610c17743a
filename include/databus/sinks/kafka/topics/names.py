"""Names of topics from tables and routes. No client library is needed here: Spark encodes the same names as Columns."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from databus.core.errors.sink import SinkSettingError
from databus.core.state.known_outputs import NOTHING_KNOWN, KnownOutputs
from databus.core.tables.schemas import TableSchema

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
    name = re.sub(ILLEGAL, "_", exact_name(template, table, route, flow))
    if not name or len(name) > MAX_NAME or name in {".", ".."}:
        raise SinkSettingError(
            f"table {table.full_name}, route {route!r}: topic name {name!r} is not one that Kafka allows",
            hint=f"A name has 1 to {MAX_NAME} characters; change the sink's topic or set a shorter route.",
        )
    return name


def exact_name(template: str, table: TableSchema, route: str, flow: str) -> str:
    """Return the name that the topic of a table's rows would have if Kafka allowed all characters."""
    values = {"database": table.database, "table": table.table or DDL_TABLE, "flow": flow}
    values["route"] = route if table.table else route + DDL_TABLE
    return "".join(values[text] if field else text for field, text in template_parts(template))


def topics_of(
    template: str, outputs: Sequence[tuple[TableSchema, str]], flow: str, known: KnownOutputs = NOTHING_KNOWN
) -> dict[str, str]:
    """Return topic → exact name of (table, route) pairs, sorted.

    Args:
        template: the sink's `topic`.
        outputs: (table, route) pairs.
        flow: flow name.
        known: topics that were written to, with the exact names of those in whose names characters were replaced.

    Raises:
        SinkSettingError: two names that differ, also of batches before this one, meet in one topic only because
            characters were replaced.
    """
    found: dict[str, tuple[str, str]] = {}
    for table, route in outputs:
        topic, exact = topic_of(template, table, route, flow), exact_name(template, table, route, flow)
        other, owner = found.setdefault(topic, (exact, table.full_name))
        former = known.names.get(topic, topic if topic in known.ids else exact)
        if other == exact == former:
            continue
        first = owner if other != exact else f"what was written to it before ({former!r})"
        raise SinkSettingError(
            f"{first} and {table.full_name} ({exact!r}) would share the topic {topic!r}, because Kafka allows only "
            "letters, digits and ._- in its name",
            hint="Give one of them another route with a Route transform."
            if other != exact
            else f"Give {table.full_name} another route with a Route transform. Should nothing of the other name come "
            f"any more, let it have the topic: `databus checkpoint accept {flow.partition('.')[0]} --topic {topic}`.",
            code="sink_topic_shared",
        )
    return {topic: exact for topic, (exact, _) in sorted(found.items())}


def replaced(names: Mapping[str, str]) -> dict[str, str]:
    """Return those of topic → exact name that differ."""
    return {topic: exact for topic, exact in names.items() if topic != exact}


def template_parts(template: str) -> list[tuple[bool, str]]:
    """Split a template into (is a field, field name or literal text), in order."""
    parts: list[tuple[bool, str]] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        parts += [(False, literal)] if literal else []
        parts += [(True, name)] if name is not None else []
    return parts
