"""Rules of the snapshot protocol as switches: as they are, weakened one by one, and in other forms that hold too."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of the protocol; the defaults are the protocol.

    Attributes:
        order: "chunks first" or "log first": what a batch delivers first.
        wait: views that wait until they cover the checkpoint: "each", "first" or "none" (a low mark by file:pos).
        end: end of a batch with chunks: at "head" or behind it (b >= H), at the "views" (the newest view's place, which
            only MariaDB tells), or anywhere "before" (b < H).
        retry: "file", or "read anew".
        drop: rows are superseded by the "range", by the part of it up to the "head" after the last read, or "none".
        touched: "images", "after-images", or "emitted": images of rows that filters and checks let through.
        xa: rows of an XA transaction touch their keys at its "commit" or at its "prepare".
        bounds: found in a "view" that covers the checkpoint, or "outside", before the wait.
        last: the last chunk reaches to the last key of the "view", or of the table as the snapshot was "asked" for.
        truncates: whether a TRUNCATE in the range throws chunks away.
        alters: whether another definition in the range throws chunks away.
        key_order: whether a table whose keys are ordered otherwise than its cursor is begun anew.
        cursor: written in the "multi" of the checkpoint, or "apart".
        version: place by which a search sink judges chunk rows: the "start" of the range or its "end".
        given_up: chunks of a plan that was given up: read "anew" unless a lagging sink has them, "always anew", or the
            same "files" for any later plan from the same place that ends no earlier; "shorter": or earlier.
        requests: pause and cancel are kept "apart" from plans, or "overwritten" by the commit of one.
        behind: while a sink is behind, the snapshot "waits", or goes on and the sink gets its files at their place
            ("owed"), or not at all ("forgotten").
        fit: rows are superseded by the plan's "range", by one that is "cut" before it is written, or by one that has
            "grown" since.
        empty: whether a batch with chunks may have an empty range.
        skips: whether a chunk without rows is passed over where nothing was logged.
        tables: "all"; "transactional" ones, whose views are refused where the table was emptied since, as servers do;
            "unseen" ones, whose views never show a later definition either.
        join: a lagging sink joins where it stands as the flow does in "all", or in "place" alone.
        views: opened on the "source" or on a "replica" of it.
        high: H is the end of the source's "log" after the last read, what the source has "shown" of it by then, or
            where the "replica" stood before its views were opened.
    """

    order: str = "chunks first"
    wait: str = "each"
    end: str = "head"
    retry: str = "file"
    drop: str = "range"
    touched: str = "images"
    xa: str = "commit"
    bounds: str = "view"
    last: str = "view"
    truncates: bool = True
    alters: bool = True
    key_order: bool = True
    cursor: str = "multi"
    version: str = "start"
    given_up: str = "anew"
    requests: str = "apart"
    behind: str = "waits"
    fit: str = "range"
    empty: bool = True
    skips: bool = False
    tables: str = "all"
    join: str = "all"
    views: str = "source"
    high: str = "log"


PROTOCOL = Rules()
LOG_FIRST = Rules(order="log first")
REPLICA = Rules(views="replica")

HOLDS = {
    "the protocol": PROTOCOL,
    "the log's rows first": LOG_FIRST,
    "a TRUNCATE throws no chunk away": replace(PROTOCOL, truncates=False),
    "superseded up to the head after the last read only": replace(PROTOCOL, drop="head"),
    "only after-images count as touched": replace(PROTOCOL, touched="after-images"),
    "log's rows first, chunk rows with version b": replace(LOG_FIRST, version="end"),
    "a plan that is given up leaves its files to the next": replace(PROTOCOL, given_up="files"),
    "the range grows once rows were superseded": replace(PROTOCOL, fit="grown"),
    "the newest view's place, views show nothing later": replace(PROTOCOL, end="views", tables="unseen"),
    "a lagging sink is owed the files": replace(PROTOCOL, behind="owed"),
    "views of a replica": REPLICA,
    "views of a replica, log's rows first": replace(LOG_FIRST, views="replica"),
}
"""Forms of the protocol that are right."""

WEAKENED = {
    "no wait for visibility": replace(PROTOCOL, wait="none"),
    "of parallel views only the first waits": replace(PROTOCOL, wait="first"),
    "the batch ends before the last read (b < H)": replace(PROTOCOL, end="before"),
    "a retry reads anew": replace(PROTOCOL, retry="read anew"),
    "superseded rows are not dropped": replace(PROTOCOL, drop="none"),
    "only after-images count as touched, log's rows first": replace(LOG_FIRST, touched="after-images"),
    "superseded up to the head only, log's rows first": replace(LOG_FIRST, drop="head"),
    "rows filtered and held back do not count as touched": replace(PROTOCOL, touched="emitted"),
    "XA rows count at the prepare": replace(PROTOCOL, xa="prepare"),
    "XA rows count at the prepare, log's rows first": replace(LOG_FIRST, xa="prepare"),
    "bounds found outside the view": replace(PROTOCOL, bounds="outside"),
    "the last chunk ends where the table once ended": replace(PROTOCOL, last="asked"),
    "another definition throws no chunk away": replace(PROTOCOL, alters=False),
    "a TRUNCATE throws no chunk away, log's rows first": replace(LOG_FIRST, truncates=False),
    "a cursor outlives the order of its keys": replace(PROTOCOL, key_order=False),
    "the cursor in a step of its own": replace(PROTOCOL, cursor="apart"),
    "chunk rows with version b instead of a": replace(PROTOCOL, version="end"),
    "version b, superseded up to the head only": replace(PROTOCOL, version="end", drop="head"),
    "version b, files left to the next plan": replace(PROTOCOL, version="end", given_up="files"),
    "files left to a next plan that ends earlier": replace(PROTOCOL, given_up="shorter"),
    "a plan that a sink has too is read anew": replace(PROTOCOL, given_up="always anew"),
    "a pause or cancel is overwritten by a commit": replace(PROTOCOL, requests="overwritten"),
    "the snapshot goes on while a sink is behind": replace(PROTOCOL, behind="forgotten"),
    "owed files, joined by the place alone": replace(PROTOCOL, behind="owed", join="place"),
    "the batch ends at the newest view's place": replace(PROTOCOL, end="views"),
    "the newest view's place, transactional tables": replace(PROTOCOL, end="views", tables="transactional"),
    "the range is cut once rows were superseded": replace(PROTOCOL, fit="cut"),
    "the range grows once rows were superseded, log's rows first": replace(LOG_FIRST, fit="grown"),
    "chunks wait until something is logged": replace(PROTOCOL, empty=False),
    "a chunk without rows is no batch": replace(PROTOCOL, skips=True),
    "a replica that need not have executed the checkpoint": replace(REPLICA, wait="none"),
    "a replica, H is where it stood before its views": replace(REPLICA, high="replica"),
    "a replica, H is what the source shows": replace(REPLICA, high="shown"),
    "a replica, another definition throws no chunk away": replace(REPLICA, alters=False),
}
"""Rules left out, one each: the model must find each of them wrong."""
