"""Private data: whether others than the owner may read the rows that lie in the segment store and the records file."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

from databus.core.findings import Finding, Level
from databus.core.private_files import wider
from databus.core.settings import Settings

_NAMED = 5


def examine_private_data(settings: Settings) -> Finding:
    """Name what is wider than 0700 (folders) and 0600 (files), with the command that mends it; changes nothing."""
    import sqlalchemy as sa

    subject, places = "private data", list[Path]()
    if "://" not in settings.segment_store:
        places.append(Path(settings.segment_store))
    url = sa.engine.make_url(settings.records_url)
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        places += [Path(f"{url.database}{ending}") for ending in ("", "-wal", "-shm")]
    found = list(itertools.islice(itertools.chain.from_iterable(map(wider, places)), _NAMED + 1))
    if not found:
        return Finding(subject, Level.OK, "segments and records are their owner's alone")
    named = ", ".join(f"{path} ({mode:04o})" for path, mode in found[:_NAMED])
    more = ", and more" if len(found) > _NAMED else ""
    mend = " ".join(shlex.quote(str(place)) for place in places if place.exists())
    return Finding(
        subject,
        Level.WARN,
        f"others than the owner may read, enter or change {named}{more}: rows lie there",
        f"chmod -R go-rwx {mend}",
        "private_data_wider",
    )
