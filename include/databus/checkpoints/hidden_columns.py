"""Columns that each flow's transforms hide, as they were found: a node beside its checkpoint, and pages below it.

All of them together are what is remembered. What is new goes to the last one while that has room, else to a new page,
so that no write grows with the number of tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from databus.checkpoints.codec import decode_as, encode
from databus.checkpoints.layout import Layout
from databus.checkpoints.session import Node, ZooKeeperSession
from databus.checkpoints.transaction import OutcomeUnknownError, RefusedError, create, set_data
from databus.core.errors import CheckpointConflictError
from databus.core.hidden_columns import RememberedHidden

_ATTEMPTS = 10

PAGE_BYTES = 64 * 1024
"""A node that holds more takes no more; one write stays far below what ZooKeeper takes."""


class ZooKeeperHiddenColumns:
    """Implements `databus.core.hidden_columns.HiddenColumns`."""

    def __init__(self, session: ZooKeeperSession, layout: Layout):
        self._session = session
        self._layout = layout

    def load(self, flow: str) -> RememberedHidden:
        """Return what was added so far. Raises CheckpointError."""
        return self._look(flow)[0]

    def add(self, flow: str, found: RememberedHidden) -> None:
        """Add to it. Raises CheckpointError.

        It is read and written again where another run wrote in between, or the answer was lost.
        """
        failures = 0
        while failures < _ATTEMPTS:
            before, last, page = self._look(flow)
            part = next(_parts(found.without(before)), None)
            if part is None:
                return
            if not self._write(flow, part, last, page):
                failures += 1
        raise CheckpointConflictError(
            f"hidden columns of flow {flow}: others wrote there at each of {_ATTEMPTS} attempts",
            hint="Run the flow again; `databus checkpoint show` names who holds it.",
        )

    def _write(self, flow: str, part: RememberedHidden, last: Node | None, page: int) -> bool:
        """Add a part to the last node, or to a new page; False where somebody else wrote, or nobody answered."""
        paths = self._layout.flow(flow)
        path = paths.hidden_columns if page == 0 else paths.hidden_columns_page(page)
        if last is None:
            self._session.ensure(paths.root)
            operation = create(path, encode(part.to_json()))
        elif len(last.data) > PAGE_BYTES:
            operation = create(paths.hidden_columns_page(page + 1), encode(part.to_json()))
        else:
            operation = set_data(path, encode(self._decoded(flow, last).with_added(part).to_json()), last.version)
        try:
            self._session.write([operation], f"hidden columns of flow {flow}")
        except (RefusedError, OutcomeUnknownError):
            return False
        return True

    def _look(self, flow: str) -> tuple[RememberedHidden, Node | None, int]:
        """Return all that is remembered, the node that was written last, and the number of its page."""
        paths = self._layout.flow(flow)
        first = self._session.read(paths.hidden_columns, sync=True)[0]
        if first is None:
            return RememberedHidden(), None, 0
        pages = [int(name) for name in self._session.children(paths.hidden_columns)]
        nodes: Sequence[Node | None] = ()
        if pages:
            nodes = self._session.read(*map(paths.hidden_columns_page, pages))
        found = [first, *(node for node in nodes if node is not None)]
        remembered = RememberedHidden()
        for node in found:
            remembered = remembered.with_added(self._decoded(flow, node))
        return remembered, found[-1], max(pages, default=0)

    @staticmethod
    def _decoded(flow: str, node: Node) -> RememberedHidden:
        return decode_as(node.data, f"hidden columns of flow {flow}", RememberedHidden.from_json)


def _parts(more: RememberedHidden) -> Iterator[RememberedHidden]:
    """Cut what is to be added into parts that one write takes."""
    for name in ("tables", "renamed", "shown"):
        some: dict[str, frozenset[str]] = {}
        size = 0
        for table, names in getattr(more, name).items():
            some[table] = names
            size += len(encode({table: sorted(names)}))
            if size > PAGE_BYTES:
                yield RememberedHidden(**{name: some})
                some, size = {}, 0
        if some:
            yield RememberedHidden(**{name: some})
