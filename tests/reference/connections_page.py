"""Page of connections: types, fields, extras, an example of each, and the rights that an account needs."""

from __future__ import annotations

import tomllib
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from databus.checkpoints.connection.options import ZooKeeperOptions
from databus.core.option_texts import described
from tests.reference.markdown import plain
from tests.reference.option_types import default_text

HEAD = """# Connections

Read this page to define a connection, and to ask for the rights of its account. A flow names it by its id; it is looked
up in Airflow (Admin → Connections, secrets backends), in `AIRFLOW_CONN_<CONN_ID>`, or in the file of
`DATABUS_CONNECTIONS`, as JSON or as a URI. Secrets appear in no log. TLS: [security](../security.md).

Rights are those of the requests that the code makes. The suite runs MySQL and MariaDB with an account that has no more
than these, but Kafka, search and ZooKeeper with accounts that may do everything: try a narrow one with `doctor` first.
`databus doctor FLOW` names every connection, setting and right that is missing, with the statement that mends it.
"""


@cache
def types() -> dict[str, dict[str, Any]]:
    """Return name → facts; ZooKeeper's extras are those of its options class."""
    found = tomllib.loads(Path(__file__).with_name("connection_types.toml").read_text())
    meanings = described(cleandoc(ZooKeeperOptions.__doc__ or ""))
    found["zookeeper"]["extras"] = [
        [name, f"{' '.join(meanings[name].partition(':')[2].split()).rstrip('.')}{_default(field)}"]
        for name, field in ZooKeeperOptions.model_fields.items()
        if name not in ("login", "password")
    ]
    return found


def _default(field: Any) -> str:
    value = None if field.is_required() else field.default
    return f"; default {default_text(value)}" if value not in (None, "") else ""


def text() -> str:
    parts = [HEAD]
    for facts in types().values():
        parts.append(f"## {facts['title']}\nFor: {facts['used']}.\n\nFields: {facts['fields']}.\n")
        parts.append(f"```json\n{facts['example']}\n```\n")
        if "uri" in facts:
            parts.append(f"As a URI: `{facts['uri']}`\n")
        lines = [f"* `{name}`: {plain(meaning)}" for name, meaning in facts.get("extras", ())]
        lines += [f"* {facts['more']}"] if "more" in facts else []
        parts.append("\n".join(["In `extra`:", "", *lines, ""])) if lines else None
        if facts["rights"]:
            parts.append("\n".join(["Rights:", "", *(f"* {right}" for right in facts["rights"]), ""]))
    return "\n".join(parts)
