"""Columns that each flow's transforms hide, as they were found: a node beside its checkpoint, and pages below it.

All of them together are what is remembered. What is new goes to the last one while that has room, else to a new page,
so that no write grows with the number of tables. What holds no more is taken back where it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.connection.session import Node, ZooKeeperSession
from databus.checkpoints.connection.transaction import Operation, OutcomeUnknownError, RefusedError, create, set_data
from databus.checkpoints.paths import Layout
from databus.core.errors.checkpoint import CheckpointConflictError
from databus.core.tables.hidden_columns import NOTHING_GONE, RememberedHidden

_ATTEMPTS = 10

PAGE_BYTES = 64 * 1024
"""A node that holds more takes no more; one write stays far below what ZooKeeper takes."""


@dataclass(frozen=True)
class _Page:
    """A node as it was read, with its number and what it holds."""

    number: int
    path: str
    node: Node
    holds: RememberedHidden


class ZooKeeperHiddenColumns:
    """Implements `databus.core.tables.hidden_columns.HiddenColumns`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout, sink: str = ""):
        self._session = session
        self._layout = layout
        self._sink = sink

    def of_sink(self, sink: str) -> ZooKeeperHiddenColumns:
        """Return what remembers it of a flow's sink that has transforms of its own, beside the flow's."""
        return ZooKeeperHiddenColumns(self._session, self._layout, sink)

    def load(self, flow: str) -> RememberedHidden:
        """Return what was added so far, and not taken back. Raises CheckpointError."""
        return _together(self._look(flow))

    def add(self, flow: str, found: RememberedHidden, gone: RememberedHidden = NOTHING_GONE) -> None:
        """Add to it, and take some of it back. Raises CheckpointError.

        It is read and written again where another run wrote in between, or the answer was lost.
        """
        failures = 0
        while failures < _ATTEMPTS:
            pages = self._look(flow)
            operation = self._taking(pages, gone) or self._adding(flow, pages, found)
            if operation is None:
                return
            try:
                self._session.write([operation], f"hidden columns of flow {flow}")
            except (RefusedError, OutcomeUnknownError):
                failures += 1
        raise CheckpointConflictError(
            f"hidden columns of flow {flow}: others wrote there at each of {_ATTEMPTS} attempts",
            hint="Run the flow again; `databus checkpoint show` names who holds it.",
        )

    @staticmethod
    def _taking(pages: Sequence[_Page], gone: RememberedHidden) -> Operation | None:
        """Return what takes some of it back from one of the pages that have any; None where none has."""
        stale = next((page for page in pages if page.holds.shared(gone)), None)
        if stale is None:
            return None
        return set_data(stale.path, encode(stale.holds.without(gone).to_json()), stale.node.version)

    def _adding(self, flow: str, pages: Sequence[_Page], found: RememberedHidden) -> Operation | None:
        """Return what adds a part to the last page, or on a new one; None where nothing is new."""
        part = next(_parts(found.without(_together(pages))), None)
        if part is None:
            return None
        paths = self._layout.flow(flow).of_sink(self._sink)
        if not pages:
            self._session.ensure(paths.root)
            return create(paths.hidden_columns, encode(part.to_json()))
        last = pages[-1]
        if len(last.node.data) > PAGE_BYTES:
            return create(paths.hidden_columns_page(last.number + 1), encode(part.to_json()))
        return set_data(last.path, encode(last.holds.with_added(part).to_json()), last.node.version)

    def _look(self, flow: str) -> list[_Page]:
        """Return all pages there are, the newest one last; the node itself is the first."""
        paths = self._layout.flow(flow).of_sink(self._sink)
        first = self._session.read(paths.hidden_columns, sync=True)[0]
        if first is None:
            return []
        numbers = sorted(int(name) for name in self._session.children(paths.hidden_columns))
        named = [(0, paths.hidden_columns), *((number, paths.hidden_columns_page(number)) for number in numbers)]
        nodes = (first, *(self._session.read(*(path for _, path in named[1:])) if numbers else ()))
        return [
            _Page(number, path, node, self._decoded(flow, node))
            for (number, path), node in zip(named, nodes, strict=True)
            if node is not None
        ]

    @staticmethod
    def _decoded(flow: str, node: Node) -> RememberedHidden:
        return decode_as(node.data, f"hidden columns of flow {flow}", RememberedHidden.from_json)


def _together(pages: Iterable[_Page]) -> RememberedHidden:
    remembered = RememberedHidden()
    for page in pages:
        remembered = remembered.with_added(page.holds)
    return remembered


def _parts(more: RememberedHidden) -> Iterator[RememberedHidden]:
    """Cut what is to be added into parts that one write takes."""
    for name, part in more.parts().items():
        some: dict[str, Collection[str]] = {}
        size = 0
        for table, names in part.items():
            some[table] = names
            size += len(encode({table: sorted(names)}))
            if size > PAGE_BYTES:
                yield RememberedHidden(**{name: some})
                some, size = {}, 0
        if some:
            yield RememberedHidden(**{name: some})
