"""Provenance queries: which batches moved a place, by a few index look-ups each, however much was recorded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from databus.core.positions.offsets import Offset, offset_from_json
from databus.records.batch_record import BatchRecord, batch_record
from databus.records.quick_reader import RecordReader, Select, json_of, time_of
from databus.records.ranges import OUTPUT, SNAPSHOT, SOURCE, chunk_stream

_MOST = 50
_MOST_EVENTS = 500
_MINE = "flow = :flow AND side = :side AND stream = :stream"
_JSON = ("range_start", "range_end", "durations_ms", "outputs", "snapshot_progress")
_TIMES = ("watermark", "committed_at", "last_held_at")
_FLAGS = ("refilled", "duplicate")


class Provenance:
    """Finds batches by what they read and wrote; all methods raise RecordingError when the database refuses.

    Args:
        records: the records; the caller closes them.
    """

    def __init__(self, records: RecordReader) -> None:
        self._records = records

    def flows(self) -> list[str]:
        """Return the names of the flows that recorded anything."""
        with self._records.snapshot() as select:
            return [row["flow"] for row in select("SELECT DISTINCT flow FROM databus_runs ORDER BY flow")]

    def wrote(self, flow: str, output: str, offset: int) -> list[BatchRecord]:
        """Return the batches that wrote an offset of "topic[partition]", oldest first."""
        return self._containing(flow, OUTPUT, output, offset)

    def read(self, flow: str, stream: str, number: int) -> list[BatchRecord]:
        """Return the batches that read a place of a log, oldest first; replays read it again."""
        return self._containing(flow, SOURCE, stream, number)

    def delivered(self, flow: str, snapshot: int, chunk: int) -> list[BatchRecord]:
        """Return the batches that took a chunk of a snapshot along, oldest first."""
        return self._containing(flow, SNAPSHOT, chunk_stream(snapshot), chunk)

    def covering(self, flow: str, side: str, stream: str, numbers: Sequence[int]) -> list[BatchRecord]:
        """Return the batches that hold any of some places of a stream, oldest first; as many look-ups as for one place.

        Args:
            flow: flow name.
            side: "source" for what was read, "output" for what was written.
            stream: log, or "topic[partition]".
            numbers: the places, in order.
        """
        if not numbers:
            return []
        statement = (
            f'SELECT "after", upto, batch FROM databus_ranges WHERE {_MINE} '  # noqa: S608 - a constant
            'AND upto >= :first AND "after" < :last ORDER BY upto'
        )
        with self._records.snapshot() as select:
            near = select(statement, flow=flow, side=side, stream=stream, first=numbers[0], last=numbers[-1])
            wanted = {
                row["batch"] for row in near if bisect_right(numbers, row["after"]) < bisect_right(numbers, row["upto"])
            }
            return _batches(select, sorted(wanted)[-_MOST_EVENTS:])

    def stands_at(self, flow: str) -> Offset | None:
        """Return the end of the flow's newest recorded batch; None without any."""
        newest = "SELECT max(id) FROM databus_batches WHERE flow = :flow"
        with self._records.snapshot() as select:
            rows = select(f"SELECT range_end FROM databus_batches WHERE id = ({newest})", flow=flow)  # noqa: S608
        return offset_from_json(json_of(rows[0]["range_end"])) if rows else None

    def streams(self, flow: str, side: str) -> list[str]:
        """Return the logs that a flow read (side "source"), or the partitions that it wrote to ("output")."""
        first = "SELECT min(stream) AS stream FROM databus_ranges WHERE flow = :flow AND side = :side"
        # A skip scan: one index look-up per name instead of a look at each row.
        found: list[str] = []
        with self._records.snapshot() as select:
            name = select(first, flow=flow, side=side)[0]["stream"]
            while name is not None:
                found.append(name)
                name = select(f"{first} AND stream > :name", flow=flow, side=side, name=name)[0]["stream"]
        return found

    def bounds(self, flow: str, side: str, stream: str) -> tuple[int, int] | None:
        """Return (after, upto) over all batches of a stream; None without any."""
        place = {"flow": flow, "side": side, "stream": stream}
        one = f'SELECT "after", upto FROM databus_ranges WHERE {_MINE} ORDER BY upto'  # noqa: S608 - a constant
        with self._records.snapshot() as select:
            first, last = select(f"{one} LIMIT 1", **place), select(f"{one} DESC LIMIT 1", **place)
        return (first[0]["after"], last[0]["upto"]) if first and last else None

    def first_where(self, flow: str, stream: str, reached: Callable[[Offset], bool]) -> int | None:
        """Return the end of the first range whose end offset has "reached" something, by a binary search.

        Args:
            flow: flow name.
            stream: log.
            reached: grows from False to True along the log.
        """
        place = {"flow": flow, "side": SOURCE, "stream": stream}
        count = f"SELECT count(*) AS ranges FROM databus_ranges WHERE {_MINE}"  # noqa: S608 - a constant
        at = (
            "SELECT upto, (SELECT range_end FROM databus_batches WHERE id = found.batch) AS range_end "  # noqa: S608
            f"FROM (SELECT upto, batch FROM databus_ranges WHERE {_MINE} ORDER BY upto LIMIT 1 OFFSET :skipped) found"
        )
        found: int | None = None
        with self._records.snapshot() as select:
            low, high = 0, select(count, **place)[0]["ranges"]
            while low < high:
                middle = (low + high) // 2
                (row,) = select(at, **place, skipped=middle)
                if reached(offset_from_json(json_of(row["range_end"]))):
                    found, high = row["upto"], middle
                else:
                    low = middle + 1
        return found

    def held(self, flow: str, event_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return what the quarantine holds of some events; a sink's cause by its kind, without values of rows."""
        names, values = _listed(event_ids[:_MOST_EVENTS])
        with self._records.snapshot() as select:
            rows = select(
                "SELECT event_id, stage, cause_class AS cause, batch, last_held_at, table_name, key "  # noqa: S608
                f"FROM databus_quarantine WHERE flow = :flow AND event_id IN ({names})",
                flow=flow,
                **values,
            )
        return [_decoded(row) for row in rows]

    def outputs(self, flow: str) -> dict[str, set[str]]:
        """Return sink → outputs of the flow's newest batches."""
        found: dict[str, set[str]] = {}
        newest = "SELECT id FROM databus_batches WHERE flow = :flow ORDER BY id DESC LIMIT :most"
        with self._records.snapshot() as select:
            statement = f"SELECT sink, outputs FROM databus_receipts WHERE batch IN ({newest})"  # noqa: S608 - a constant
            for row in select(statement, flow=flow, most=_MOST):
                found.setdefault(row["sink"], set()).update(name for name in json_of(row["outputs"]) if name)
        return found

    def _containing(self, flow: str, side: str, stream: str, number: int) -> list[BatchRecord]:
        statement = (
            f"SELECT batch FROM databus_ranges WHERE {_MINE} "  # noqa: S608 - a constant
            'AND upto >= :number AND "after" < :number ORDER BY upto LIMIT :most'
        )
        with self._records.snapshot() as select:
            found = select(statement, flow=flow, side=side, stream=stream, number=number, most=_MOST)
            return _batches(select, [row["batch"] for row in found])


def _batches(select: Select, numbers: Sequence[int]) -> list[BatchRecord]:
    """Return batches by the numbers of their rows, oldest first."""
    if not numbers:
        return []
    names, values = _listed(numbers)
    batches = select(
        "SELECT b.*, r.run_id, r.run_url FROM databus_batches b JOIN databus_runs r ON b.run = r.id "  # noqa: S608
        f"WHERE b.id IN ({names}) ORDER BY b.id",
        **values,
    )
    children: list[dict[int, list[Mapping[str, Any]]]] = []
    for table in ("databus_table_counts", "databus_receipts", "databus_check_results"):
        of_batch: dict[int, list[Mapping[str, Any]]] = {}
        for row in select(f"SELECT * FROM {table} WHERE batch IN ({names}) ORDER BY id", **values):  # noqa: S608
            of_batch.setdefault(row["batch"], []).append(_decoded(row))
        children.append(of_batch)
    return [batch_record(_decoded(row), *(of_batch.get(row["id"], ()) for of_batch in children)) for row in batches]


def _listed(values: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """Return the names of an IN list and its values by name."""
    named = {f"value_{number}": value for number, value in enumerate(values)}
    return ", ".join(f":{name}" for name in named) or "NULL", named


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with what SQLite keeps as text and numbers in its own types."""
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: Any) -> Any:
    if name in _JSON or (name == "rows" and not isinstance(value, int)):
        return json_of(value)
    if name in _TIMES:
        return time_of(value)
    return bool(value) if name in _FLAGS else value
