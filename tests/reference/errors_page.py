"""Page of error codes: cause, way out, exit code, where each is raised."""

from __future__ import annotations

import re
from collections.abc import Iterator

from databus.core.errors.entries import (
    ErrorEntry,
    all_entries,
    checkpoint,
    consumer,
    definition,
    environment,
    sink,
    source,
    stream,
)
from tests.reference.raised import codes, of_doctor_alone

PARTS: dict[str, dict[str, ErrorEntry]] = {
    "Source, snapshot, trace, Redis": source.ENTRIES,
    "Sinks and mirrors": sink.ENTRIES,
    "Checkpoint, backfill, quarantine": checkpoint.ENTRIES,
    "Flow, options, records": definition.ENTRIES,
    "Programs that read changes": consumer.ENTRIES,
    "HTTP service over topics": stream.ENTRIES,
    "Engine, machine, TLS, sandbox": environment.ENTRIES,
}
MOST = 4
"""Modules that are named; of the others there is the number."""

HEAD = """# Error codes

Read this page when a command, a task's log or an alert named a code, such as `(sink_setting)`. In a terminal
`databus explain CODE` prints the same.
The message and its hint say which table, topic or option it is about; what is here holds for each error of the code.

* **Exit code**: of the `databus` command; [all of them](../commands.md#exit-codes). A warning stops nothing.
* **Retried**: the next attempt may succeed without a person, so Airflow tries the task again; others fail at once.
"""


def text() -> str:
    parts = [HEAD]
    for title, entries in PARTS.items():
        parts.append(f"## {title}\n")
        parts += [entry_text(code) for code in sorted(entries)]
    return "\n".join(parts)


def entry_text(code: str) -> str:
    entry = all_entries()[code]
    exits = ", ".join(map(str, entry.exits)) if entry.exits else "none, a warning"
    lines = [
        f"### {code}",
        entry.cause,
        "",
        f"* **What to do**: {_linked(entry.way_out)}",
        f"* **Exit code**: {exits}. **Retried**: {'yes' if entry.retried else 'no'}.",
        *_where(code),
    ]
    return "\n".join(lines) + "\n"


def _where(code: str) -> Iterator[str]:
    raised = codes()[code]
    names = " or ".join(f"`{name}`" for name in sorted(raised.classes - {""}))
    files = sorted(raised.modules)
    named = ", ".join(f"`{file}`" for file in files[:MOST])
    more = f" and {len(files) - MOST} more" if len(files) > MOST else ""
    if raised.finding:
        finders = "`doctor`" if of_doctor_alone(code) else "`doctor` and the preflight"
        told = f"as {names}, and found by {finders}" if names else f"by {finders}"
        yield f"* **{'Raised' if names else 'Found'}** {told}: {named}{more}"
    elif files:
        yield f"* **Raised** {f'as {names} ' if names else ''}in {named}{more}"


def _linked(text: str) -> str:
    """Return a text in which pages of docs/ are links."""
    return re.sub(r"docs/((?:\w+/)*)([\w-]+)\.md", r"[\2](../\1\2.md)", text)
