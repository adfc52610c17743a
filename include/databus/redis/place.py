"""Place in a Redis server's replication stream: what PSYNC continues from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from databus.core.errors.config import PlaceError

_TEXT = re.compile(r"(?P<replid>[0-9a-f]{40}):(?P<offset>\d{1,19})/(?P<database>\d{1,9})")


@dataclass(frozen=True, slots=True)
class Place:
    """Place behind a transaction of a replication stream.

    The stream names a command's database only where it changes, so a place that is gone on from has to know it.

    Attributes:
        replid: replication id, 40 hexadecimal digits: the history that the offset counts in.
        offset: bytes of the stream that were read, as `master_repl_offset` of INFO counts them.
        database: that the next command goes to, unless a SELECT comes first.
    """

    replid: str
    offset: int
    database: int = 0

    def __str__(self) -> str:
        return f"{self.replid}:{self.offset}/{self.database}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the place that a text is, as `str` gives it.

        Raises:
            PlaceError: it is none.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise PlaceError(
                f"{text!r} is no place of a Redis replication stream", hint="Its form is REPLID:OFFSET/DATABASE."
            )
        return cls(found["replid"], int(found["offset"]), int(found["database"]))
