"""Registered schemas that a plan pins: what the records of a table say is their schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from databus.core.stored_form import Form

REGISTERED = Form("registered schemas of a table", "topic value form key", "numbers key_numbers", part=True)


@dataclass(frozen=True)
class RegisteredSchemas:
    """Registered schemas of one table's records.

    Attributes:
        topic: the topic whose subjects they are registered under.
        value: id of the value's schema in the registry.
        form: fingerprint of the columns that they describe; a task that finds others stops.
        key: id of the key's schema, 0 for a table without a key.
        numbers: number of each column's field, of a format whose fields are known by numbers.
        key_numbers: those of the key.
    """

    topic: str
    value: int
    form: str
    key: int = 0
    numbers: tuple[int, ...] = ()
    key_numbers: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; numbers only where there are some."""
        told = asdict(self)
        return REGISTERED.write({name: list(v) if isinstance(v, tuple) else v for name, v in told.items() if v != ()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RegisteredSchemas:
        """Read what `to_json` wrote.

        Raises:
            CheckpointFormatError: it has a member that this databus does not know.
        """
        told: dict[str, Any] = REGISTERED.read(data)
        read: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
        return cls(**read)
