"""Whether the schema registry of a source answers."""

from __future__ import annotations

from collections.abc import Sequence

from databus.core.errors.root import DatabusError
from databus.core.findings import Finding, Level
from databus.schema_registry.settings import KINDS, RegistrySettings


def registry_findings(settings: RegistrySettings | None, formats: Sequence[str]) -> list[Finding]:
    """Ask the registry which kinds of schema it knows; nothing for a source without one."""
    if settings is None:
        return []
    from databus.schema_registry.client import schema_types

    subject = f"schema registry: {settings.conn_id}"
    try:
        known = schema_types(settings)
    except DatabusError as error:
        return [Finding.of(subject, error)]
    if missing := [form for form in formats if KINDS[form] not in known]:
        what = f"{settings.url} knows {', '.join(sorted(known)) or 'no format'}, not {', '.join(missing)}"
        return [Finding(subject, Level.ERROR, what, "Use a registry that does.", "registry_format")]
    return [Finding(subject, Level.OK, f"{settings.url} answers, knows {', '.join(sorted(known))}")]
