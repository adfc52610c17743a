"""Headers that mirrors put on records, and that the other sides of them look for."""

from __future__ import annotations

ORIGIN = "databus.origin"
"""Names the sites a mirrored record came through, oldest first, one header each."""

CLAIM = "databus.claim"
"""Hash of a value that lies in the segment store; the reference to it stands in the value's place."""
