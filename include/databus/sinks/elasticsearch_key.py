"""Keys of an index: under which key columns its documents were written, and whether a table still has them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from databus.core.errors import SinkKeyChangedError
from databus.core.key_forms import keeps_text, key_forms
from databus.core.offsets import BinlogOffset, Offset, OffsetRange
from databus.core.tables import TableSchema
from databus.sinks.elasticsearch import OnKeyChange
from databus.sinks.elasticsearch_client import translated
from databus.sinks.elasticsearch_document import DELETED_FIELD
from databus.sinks.elasticsearch_index import Indices, Standing
from databus.sinks.elasticsearch_version import source_version

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """What ids are made of.

    Attributes:
        names: key columns in key order.
        forms: how their values are written; empty where that is not known.
    """

    names: tuple[str, ...]
    forms: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def written(self) -> str:
        """Names with forms, e.g. "id decimal(2)"."""
        return ", ".join(" ".join(each) for each in zip(self.names, self.forms, strict=False)) or str(self)

    def may_be(self, other: Key) -> bool:
        """Tell whether it is the other one, as far as both are known."""
        return self.names == other.names and (self.forms == other.forms or not (self.forms and other.forms))


@dataclass(frozen=True)
class IndexKeys:
    """Compares the keys of a range's tables with those of the documents that are there.

    Attributes:
        indices: the indices.
        policy: what to do about another key.
        span: the range.
    """

    indices: Indices
    policy: OnKeyChange
    span: OffsetRange

    def require(self, index: str, table: TableSchema, earlier: Collection[str]) -> None:
        """Refuse a table whose documents have ids of other key columns, or of the same ones written in another way.

        Names of columns do not matter. Of an index that several tables may share nothing is remembered. What is
        accepted is written down in the index, and so is the key of one that does not say it, or not its form: the
        present one is taken for that of its documents.

        Args:
            index: name; `ensure` was called.
            table: a definition of the table, in the order of the log.
            earlier: columns that the table had in the range before this definition.

        Raises:
            SinkKeyChangedError: the key is another one.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        standing, now = self.indices.standing(index, table.full_name), Key(table.primary_key, key_forms(table))
        if standing is None or self.indices.shared or now in (known := self._known(standing)):
            return
        keys = _keys(standing)
        place = next((at for at, each in enumerate(keys) if each in known and each.may_be(now)), None)
        if place is not None:
            if not now.forms:
                return
            keys[place] = now
        else:
            if known and not self._makes_the_same(index, known, table, earlier):
                standing.former = len(keys)
                standing.since = max(standing.since, _version(self.span.end))
            keys.append(now)
        standing.key, standing.keys = keys[0].names, tuple(key.names for key in keys[1:])
        standing.forms = tuple(key.forms for key in keys)

        def added(ours: dict[str, Any]) -> dict[str, Any]:
            if ours.get("table") != table.full_name:  # somebody else's index: it is not ours to say
                return ours
            further: dict[str, Any] = {"keys": [list(each) for each in standing.keys]} if standing.keys else {}
            further |= {"former": standing.former, "since": standing.since} if standing.since else {}
            further |= {"forms": [list(each) for each in standing.forms]} if any(standing.forms) else {}
            return {**ours, "key": list(standing.key), **further}

        self.indices.write_down(index, added, f"ids are made of ({now.written}): it is asked again")

    def _known(self, standing: Standing) -> list[Key]:
        """Return the keys that a definition in the range may have; former ones only where it begins before the last."""
        anew = standing.since and _version(self.span.start) >= standing.since
        return _keys(standing)[standing.former if anew else 0 :]

    def _makes_the_same(self, index: str, known: Sequence[Key], table: TableSchema, earlier: Collection[str]) -> bool:
        """Tell whether it is a known key under other names; False where another one is accepted. Raises where none is.

        Then the old names are gone, and the new ones were neither in the range before nor in any document. A key whose
        values got another form but keep their text is accepted; the way back from there is another one.
        """
        now = Key(table.primary_key, key_forms(table))
        if any(before.names == now.names and keeps_text(before.forms, now.forms) for before in known):
            return False
        there = _newest(self.indices, index)
        had = {*earlier, *self.indices.fields_before(index), *(there or ())}
        columns = {column.name for column in table.columns}
        for before in known:
            if len(before.names) == len(now.names) and all(
                old == new or (old not in columns and new not in had)
                for old, new in zip(before.names, now.names, strict=True)
            ):
                if before.forms == now.forms or not (before.forms and now.forms):
                    return True
                if keeps_text(before.forms, now.forms):
                    return False
        said = (known[-1].written, now.written) if known[-1].names == now.names else (str(known[-1]), str(now))
        if there is None and not earlier:
            log.info(
                "%s: index %r has no documents of %s, whose key was (%s): ids are made of (%s) from here on",
                self.indices.place, index, table.full_name, *said,
            )  # fmt: skip
            return False
        if self.policy == "fail":
            raise _changed(self.indices.place, index, table, said)
        log.warning(
            "%s: documents of %s in index %r have ids made of (%s), and its key is (%s) now: those of former ids stay "
            "as they are (on_key_change)",
            self.indices.place, table.full_name, index, *said,
        )  # fmt: skip
        return False


def _keys(standing: Standing) -> list[Key]:
    """Return what ids of an index's table were made of, in the order in which that came."""
    names = (standing.key, *standing.keys) if standing.key else ()
    forms = (*standing.forms, *[()] * len(names))
    return [Key(*each) for each in zip(names, forms, strict=False)]


def _newest(indices: Indices, index: str) -> Collection[str] | None:
    """Return the fields of the document that was written last, None where an index has none.

    Of a login that may not look nothing is known: no fields, of a document that may be there.
    """
    from opensearchpy.exceptions import AuthorizationException, OpenSearchException

    if index in indices.made:
        return None
    alive = {"bool": {"must_not": {"term": {DELETED_FIELD: True}}}}
    try:
        indices.client.indices.refresh(index=index)
        found = indices.client.search(
            index=index,
            body={"size": 1, "query": alive, "sort": [{"_seq_no": "desc"}]},
            params={"allow_partial_search_results": "false"},
        )
    except AuthorizationException as error:
        log.debug("%s: documents of index %r are not looked at: %s", indices.place, index, error)
        return ()
    except OpenSearchException as error:
        raise translated(error, f"{indices.place}: looking at index {index!r}") from error
    hits = found["hits"]["hits"]
    return {*(hits[0].get("_source") or ())} if hits else None


def _version(place: Offset) -> int:
    """Return where a place lies among the versions of rows; 0 where it does not."""
    return source_version(place.timeline, place.file_number, place.pos) if isinstance(place, BinlogOffset) else 0


def _changed(place: str, index: str, table: TableSchema, said: tuple[str, str]) -> SinkKeyChangedError:
    name, (before, now) = table.full_name, said
    error = SinkKeyChangedError(
        f"{place}: the primary key of {name} is ({now}) now, and the documents of index {index!r} have ids made of "
        f"({before}): later rows would overwrite and miss them",
        hint=f"Take a new index (`index` of the sink) and have the rows of {name} written again behind the ALTER, and "
        "those of other tables that go to a new one with it, or "
        'go on knowingly with on_key_change="ignore" of the sink: documents under former ids stay until they are '
        f"deleted by hand. Where {name} was dropped and made anew in these very rows, they go with the DROP "
        '(on_truncate="delete"), and "ignore" leaves nothing behind.',
    )
    error.definition = table.schema_id
    return error
