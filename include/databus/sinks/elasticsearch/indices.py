"""Indices: their creation, their fields, and which table owns one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from databus.core.errors.sink import SinkSettingError
from databus.sinks.elasticsearch import index_tables as tables
from databus.sinks.elasticsearch.client import reason_of, translated
from databus.sinks.elasticsearch.index_notes import IndexNotes
from databus.sinks.elasticsearch.index_state import META, IndexState
from databus.sinks.elasticsearch.mapping import differs, limit_of, sent
from databus.sinks.envelope import FLAGS_FIELD

if TYPE_CHECKING:
    from opensearchpy import OpenSearch

log = logging.getLogger(__name__)


def _apart(table: str, other: str) -> str:
    """Return what keeps rows of two tables of one index apart."""
    ids = 'et ids="table_key" (keys with the table\'s name), or ids="key" when the tables never share a key.'
    if table.lower() != other.lower():
        return f"Put {{database}} and {{table}} into the index template, or s{ids}"
    return f"Names of indices have no case, so {{database}} and {{table}} do not keep them apart. S{ids}"


@dataclass
class Indices:
    """Makes missing indices and sees to it that a table's documents do not overwrite another's.

    Attributes:
        client: the client.
        place: connection for messages.
        body: body of a create request, without the owner.
        shared: whether tables may share an index, because their ids differ or the flow's author says so.
        typing: whether fields are to be compared with those of columns.
        listing: whether each table that writes to an index is written down in it, because nothing else shows it.
        unlisted: (index, table) that the login may not write down, kept by the sink: they are not tried again.
        made: names of the indices that it made.
    """

    client: OpenSearch
    place: str
    body: Mapping[str, Any]
    shared: bool
    typing: bool = False
    listing: bool = False
    unlisted: set[tuple[str, str]] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    _known: dict[str, IndexState] = field(default_factory=dict)

    @property
    def _notes(self) -> IndexNotes:
        return IndexNotes(self.client, self.place)

    def ensure(
        self,
        index: str,
        table: str,
        key: Callable[[], Sequence[str]] = tuple,
        fields: Mapping[str, Any] | None = None,
        written: tuple[Sequence[str], int] = ((), 0),
    ) -> None:
        """Make the index when it is missing; asks the server once per index.

        Args:
            index: name.
            table: `database.table`.
            key: names the table's key columns, for an index that is made.
            fields: field → mapping of an index that is made.
            written: of an index that is made, how the key's values are written, empty where that is not known, and the
                version of the place where its columns are called so.

        Raises:
            SinkSettingError: the index belongs to another table, or the server refuses to make it.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        if index not in self._known:
            self._known[index] = self._read(index) or self._create(index, table, (key(), *written), fields or {})
        self._require_own(index, table)
        if self.listing and table not in self._known[index].tables and (index, table) not in self.unlisted:
            self._enrol(index, table)

    def standing(self, index: str, table: str) -> IndexState | None:
        """Return owner, key and fields of an index, None where there is none; makes nothing.

        Raises:
            SinkSettingError: the index belongs to another table.
            SinkUnavailableError: no answer.
            SinkAccessError: rights are missing.
        """
        if index not in self._known:
            found = self._read(index)
            if found is None:
                return None
            self._known[index] = found
        self._require_own(index, table)
        return self._known[index]

    def emptied_at(self, index: str, table: str) -> int:
        """Return the version of the last statement that emptied a table; 0 without any, or before `ensure`."""
        known = self._known.get(index)
        return known.emptied.get(table, 0) if known is not None else 0

    def others_in(self, index: str, table: str) -> list[str]:
        """Return the other tables that are known to write to an index, as of now.

        Raises:
            SinkUnavailableError: no answer.
        """
        found = self._read(index)
        return sorted(found.tables - {table}) if found is not None else []

    def extend(self, index: str, fields: Mapping[str, Any], told: set[tuple[str, str]]) -> None:
        """Add the fields that an index lacks; idempotent. A refusal is logged: the server then decides by values.

        Fields that are there stay as they are, and so does a mapping that says `dynamic`. A field of a mapping that was
        made of columns and is of another type than its column is logged: documents that do not fit are refused one by
        one.

        Args:
            index: name; `ensure` was called.
            fields: field → mapping.
            told: (index, field) of what was logged already.

        Raises:
            SinkUnavailableError: no answer.
        """
        from opensearchpy.exceptions import AuthorizationException, OpenSearchException, RequestError

        known = self._known[index]
        missing = {name: wanted for name, wanted in fields.items() if name not in known.fields}
        if known.typed:
            for name, wanted in fields.items():
                if name not in missing and (index, name) not in told and differs(wanted, known.fields[name]):
                    told.add((index, name))
                    log.warning(
                        "%s: field %r of index %r is %s, its column now wants %s: documents that do not fit are "
                        "refused; an index of another name takes the new type",
                        self.place, name, index, known.fields[name].get("type", "object"), wanted["type"],
                    )  # fmt: skip
        if not missing or known.dynamic:
            return
        try:
            sent(lambda given: self.client.indices.put_mapping(index=index, body={"properties": given}), missing)
        except (AuthorizationException, RequestError) as error:
            if (index, "") not in told:
                told.add((index, ""))
                log.warning(
                    "%s: index %r does not take mappings of %s, their types are the server's choice: %s",
                    self.place, index, ", ".join(missing), reason_of(error.info),
                )  # fmt: skip
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: mapping of index {index!r}") from error

    def remember(self, index: str, table: str, version: int) -> None:
        """Write down in the index that a table was emptied, so that older rows do not come back; idempotent.

        The versions of deleted documents do the same for `gc_deletes`, but only for those that were there.

        Raises:
            SinkUnavailableError: no answer.
        """

        def added(ours: dict[str, Any]) -> dict[str, Any]:
            emptied = ours.get("emptied", {})
            return {**ours, "emptied": {**emptied, table: max(version, emptied.get(table, 0))}}

        if version <= self.emptied_at(index, table):
            return
        fields = tables.was_emptied(table, version) if self.shared else {}
        what = f"{table} was emptied: rows from before that are kept away for gc_deletes only"
        self._notes.amend(index, fields, added, what)
        self._known.setdefault(index, IndexState()).emptied[table] = version

    def fields_before(self, index: str) -> set[str]:
        """Return the fields that an index had before this plan; `ensure` was called.

        Raises:
            SinkUnavailableError: no answer.
        """
        if index in self.made:
            return set()
        if not self.typing and (found := self._read(index, whole=True)) is not None:
            return set(found.fields)
        return set(self._known[index].fields)

    def write_down(self, index: str, change: Callable[[dict[str, Any]], dict[str, Any]], what: str) -> bool:
        """Change what we keep in the `_meta` of an index of one table; return False where the login may not.

        Raises:
            SinkUnavailableError: no answer.
        """
        return self._notes.amend(index, {}, change, what)

    def key_of(self, index: str) -> tuple[str, ...]:
        """Return the names of the key columns of an index's table, none where they are not known."""
        known = self._known.get(index)
        return known.key if known is not None else ()

    def _enrol(self, index: str, table: str) -> None:
        def added(ours: dict[str, Any]) -> dict[str, Any]:
            return {**ours, "tables": sorted({*ours.get("tables", ()), table})}

        what = f"{table} writes to it: a TRUNCATE of another table may take its documents"
        if self._notes.amend(index, tables.writes(table), added, what):
            self._known[index].tables |= {table}
        else:
            self.unlisted.add((index, table))

    def _require_own(self, index: str, table: str) -> None:
        known = self._known[index]
        if known.owner is None:
            known.owner = table
        if not self.shared and known.owner != table:
            raise SinkSettingError(
                f"{self.place}: rows of {known.owner} and of {table} go to one index {index!r}, "
                "where equal keys would overwrite each other",
                hint=_apart(known.owner, table),
                code="sink_index_shared",
            )

    def _read(self, index: str, *, whole: bool = False) -> IndexState | None:
        from opensearchpy.exceptions import OpenSearchException

        try:
            # 404 is an expected answer: asked for this way the client does not log it as a failure.
            wanted = "*.mappings" if self.typing or whole else f"*.mappings._meta,{tables.PATHS}"
            params = {"filter_path": f"{wanted},status", "ignore": 404}
            found = self.client.indices.get_mapping(index=index, params=params)
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: reading index {index!r}") from error
        if found.get("status") == 404:
            return None
        return IndexState.of(found)

    def _create(
        self, index: str, table: str, of_key: tuple[Sequence[str], Sequence[str], int], fields: Mapping[str, Any]
    ) -> IndexState:
        from opensearchpy.exceptions import OpenSearchException, RequestError

        mappings, settings = dict(self.body.get("mappings", {})), dict(self.body.get("settings", {}))
        key, forms, place = of_key
        meta: dict[str, Any] = {} if self.shared else {"table": table, "key": list(key)}
        if forms and not self.shared:
            meta["forms"] = [list(forms)]
        if place and not self.shared:
            meta["at"] = [place]
        if self.listing:
            meta["tables"] = [table]
        if fields:
            meta["typed"] = True
            settings = {**limit_of(fields), **settings}
        mappings["_meta"] = {**mappings.get("_meta", {}), META: meta}

        def create(given: Mapping[str, Any]) -> None:
            ours = {FLAGS_FIELD: {"type": "keyword"}, **given} if given else {}
            properties = {**ours, **mappings.get("properties", {})}
            made = {**mappings, "properties": properties} if properties else mappings
            self.client.indices.create(index=index, body={"settings": settings, "mappings": made})

        try:
            taken = sent(create, fields)
        except RequestError as error:
            if error.error == "resource_already_exists_exception":  # another writer was faster
                return self._read(index) or IndexState(table)
            if fields:
                log.warning(
                    "%s: index %r is not made with types of the columns of %s, but with the server's choice: %s",
                    self.place, index, table, reason_of(error.info),
                )  # fmt: skip
                return self._create(index, table, of_key, {})
            raise SinkSettingError(
                f"{self.place}: index {index!r} cannot be created: {reason_of(error.info)}",
                hint="Check the sink's mapping and settings.",
                code="sink_index_refused",
            ) from error
        except OpenSearchException as error:
            raise translated(error, f"{self.place}: creating index {index!r}") from error
        self.made.add(index)
        present = {**taken, **mappings.get("properties", {})}
        listed = frozenset([table]) if self.listing else frozenset[str]()
        said = str(mappings.get("dynamic", ""))
        of_keys: dict[str, Any] = {"forms": (tuple(forms),), "places": (place,)}
        return IndexState(table, tuple(key), {}, listed, bool(fields), present, said, **of_keys)
