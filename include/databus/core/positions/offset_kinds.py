"""Kinds of offsets by name: a table of strings, plus other packages' entry points `databus.offsets`.

An entry point's name is the `kind` in the JSON of its offsets, its value is "module:Class". The class has `kind`,
`to_json`, `compare` (`offset.Offset`) and the classmethod `from_json`. What it stores is one part of a checkpoint or
plan: databus hands it back as it was written, so the class says itself which versions it reads (`stored_form.Form`
does that for it).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from databus.core.errors.checkpoint import CheckpointFormatError
from databus.core.errors.root import DatabusError
from databus.core.positions.offset import Offset

GROUP = "databus.offsets"
"""Entry points by which other packages bring kinds of offsets."""

KINDS = {
    "binlog": "databus.core.positions.binlog_offset:BinlogOffset",
    "kafka": "databus.core.positions.kafka_offsets:KafkaOffsets",
    "sequence": "databus.core.positions.offset:SequenceOffset",
    "pg_snapshot": "databus.core.positions.pg_snapshot:PgSnapshotOffset",
}
"""Kind → "module:Class" of what is in this package."""

BY_PROTOCOL = frozenset({"pg_snapshot"})
"""Kinds of this package of which, as of another one's, only what the protocol says is known."""

UNKNOWN, NOT_LOADED = "offset_kind_unknown", "offset_kind_broken"
"""Codes of the errors that name a kind of offset which no package has, or whose class cannot be used."""


@cache
def offset_class(kind: str) -> type[Any]:
    """Return the class of a kind of offset.

    Raises:
        CheckpointFormatError: no installed package has it, or its class cannot be used.
    """
    # Entry points are looked up only for what is not ours: it reads the metadata of every installed package.
    target = KINDS.get(kind) or _points().get(kind)
    if target is None:
        raise _unknown(kind)
    module, _, name = target.partition(":")
    try:
        found: type[Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise _broken(kind, f"{target} cannot be loaded: {error}") from error
    if lacking := [n for n in ("from_json", "to_json", "compare", "kind") if not hasattr(found, n)]:
        raise _broken(kind, f"{target} lacks {', '.join(lacking)}")
    if hollow := [n for n in ("__bool__", "__len__") if hasattr(found, n)]:
        raise _broken(kind, f"{target} has {' and '.join(hollow)}: an offset is never false")
    return found


def is_known(kind: object) -> bool:
    """Return whether an installed package has a kind of offset; loads no class."""
    return isinstance(kind, str) and (kind in KINDS or kind in _points())


def is_foreign(offset: Offset) -> bool:
    """Return whether only what the protocol says is known of an offset: it is of another package, or told like one."""
    return offset.kind not in KINDS or offset.kind in BY_PROTOCOL


def offset_from_json(data: Mapping[str, Any]) -> Offset:
    """Read an offset that `to_json` wrote.

    Raises:
        CheckpointFormatError: the JSON is not an offset of a known kind.
    """
    kind = data.get("kind")
    if not isinstance(kind, str):
        raise CheckpointFormatError(f"stored offset has the unknown kind {kind!r}", hint="It was edited by hand.")
    found = offset_class(kind)
    try:
        offset: Offset = found.from_json(data)
    except DatabusError:
        raise
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise CheckpointFormatError(f"stored offset {data!r} cannot be read: {error}") from error
    if offset.kind != kind:
        raise _broken(kind, f"{found.__module__}:{found.__qualname__} reads it as {offset.kind!r}")
    return offset


@cache
def _points() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


def _unknown(kind: str) -> CheckpointFormatError:
    known = sorted({*KINDS, *_points()})
    return CheckpointFormatError(
        f"stored offset has the unknown kind {kind!r}: no installed package has an entry point {kind!r} in the group "
        f"{GROUP}",
        hint=f"Install the package of the source that wrote it here too, on every worker. Known: {', '.join(known)}. "
        "A newer databus may have written it as well: then upgrade databus.",
        code=UNKNOWN,
    )


def _broken(kind: str, why: str) -> CheckpointFormatError:
    return CheckpointFormatError(
        f"offsets of the kind {kind!r} cannot be read: {why}",
        hint=f"The entry point {kind!r} of the group {GROUP} must name a class with `kind`, `from_json`, `to_json` and "
        "`compare`: mend or upgrade the package that has it.",
        code=NOT_LOADED,
    )
