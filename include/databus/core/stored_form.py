"""Stored forms: name, version and fields of what one databus writes down and another, perhaps older one, reads.

A value is written in the lowest version that has all its fields, so that what does not need a new field can still be
read by a databus that does not know it. A reader refuses a higher version, and a field that no version has, by name.

To add a field: write it only where it says something, read it as one that may be missing, and give the form one more
text with its name: that is the new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from databus.core.errors.checkpoint import CheckpointFormatError

VERSION = "v"
"""The field that holds the version; in the parts of a form it is left out where it is 1."""


class Form:
    """Stored form and its version."""

    def __init__(self, name: str, *versions: str, part: bool = False):
        """Describe it.

        Args:
            name: what errors call it.
            versions: for each version, from 1, the names of the fields that came with it, separated by spaces.
            part: whether it is stored inside others, and says its version only above 1.
        """
        self.name, self.latest, self._part = name, len(versions), part
        self._since = {field: number for number, text in enumerate(versions, 1) for field in text.split()}

    def version_of(self, values: Mapping[str, Any]) -> int:
        """Return the lowest version that has all fields of a value. Raises KeyError for a field that none has."""
        return max((self._since[field] for field in values if field != VERSION), default=1)

    def write(self, values: Mapping[str, Any], at_least: int = 1) -> dict[str, Any]:
        """Return what is stored of a value.

        Args:
            values: its fields.
            at_least: a version that a part which has none of its own needs.
        """
        version = max(self.version_of(values), at_least)
        return {**({} if self._part and version == 1 else {VERSION: version}), **values}

    def read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a stored value.

        Raises:
            CheckpointFormatError: it is of a version that this databus does not know, or has a field that it does not.
        """
        values = dict(data)
        version = values.pop(VERSION, 1 if self._part else None)
        if not isinstance(version, int) or not 1 <= version <= self.latest:
            raise CheckpointFormatError(
                f"stored {self.name} has format version {version!r}, this databus reads up to {self.latest}",
                hint="A newer databus wrote it: upgrade databus on every worker before going on."
                if isinstance(version, int) and version > self.latest
                else "Another program wrote there, or it was edited by hand; it must be put right first.",
            )
        if unknown := sorted(values.keys() - self._since.keys()):
            raise CheckpointFormatError(
                f"stored {self.name} of format version {version} has unknown fields: {', '.join(unknown)}",
                hint="A newer databus wrote it, or it was edited by hand: upgrade databus on every worker before going "
                "on, or put it right.",
            )
        return values


def canonical_json(value: Any) -> bytes:
    """Return the one byte form of a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
