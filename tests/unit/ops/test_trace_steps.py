"""Steps of a journey: what each is measured from, also through mirrors of topics with one name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from databus.core.positions.offsets import BinlogOffset
from databus.core.trace import Change, RecordPlace, Sighting
from databus.ops.trace.journey import Hop, Journey
from databus.ops.trace.steps import steps_json
from databus.records.batch_record import BatchRecord
from tests.contract.record_samples import NOON


def batch(flow: str, number: int, **fields: Any) -> BatchRecord:
    start, end = BinlogOffset("bin.000001", 4), BinlogOffset("bin.000001", 900)
    url = f"http://airflow/dags/{flow}_dag/runs/r{number}"
    values: dict[str, Any] = {"durations_ms": {"read": 400.0, "commit": 100.0, "record": 9_000.0}, **fields}
    at = NOON + timedelta(seconds=number)
    return BatchRecord(
        flow, number, f"r{number}", url, "p", "live", 3, 1, start, end, 10, watermark=NOON, committed_at=at, **values
    )


def ms(seconds: float) -> int:
    return int((NOON.timestamp() + seconds) * 1000)


CHANGE = Change("e", "u:5", "bin.000001", 500, 2, "u", "shop.orders", '{"id":7}', ms(0))


def test_each_step_is_measured_from_the_one_it_is_behind() -> None:
    seen = (
        Sighting("kafka", "record", "orders:0:7", CHANGE, ms(1.8), site="kafka_east"),
        Sighting("search", "document", "orders/7", CHANGE, state="version 12: timeline 0, log file 1, position 500"),
    )
    source, moved, record, document = steps_json(Journey("orders", CHANGE, (batch("orders", 2),), seen))
    assert source["details"] == ["update", "shop.orders", '{"id":7}', "u:5", "change 3 of its transaction"]
    assert (moved["behind"], moved["seconds"], moved["run"]) == (0, 1.5, {"dag_id": "orders_dag", "run_id": "r2"})
    assert (record["behind"], record["seconds"], record["sink"]) == (1, 0.3, "kafka")
    assert (document["at"], document["seconds"], document["details"]) == (None, None, ["search"])


def test_a_copy_is_behind_the_record_on_the_cluster_that_its_mirror_reads() -> None:
    seen = (Sighting("kafka", "record", "orders:0:7", CHANGE, ms(2), site="kafka_east"),)
    places = [RecordPlace(site, "orders", 0, 7) for site in ("kafka_east", "kafka_west", "kafka_north")]
    hops = (
        Hop("to_west", places[0], places[1], batch("to_west", 3), "", ms(3)),
        Hop("to_north", places[1], places[2], batch("to_north", 4), "not kept there any more", ms(5)),
    )
    found = steps_json(Journey("orders", CHANGE, (batch("orders", 2),), seen, (), hops))
    assert [(step["flow"], step["behind"], step["seconds"], step["warns"]) for step in found[3:]] == [
        ("to_west", 2, 1, False), ("to_north", 3, 2, True),
    ]  # fmt: skip


def test_what_is_not_known_is_left_open() -> None:
    former = batch("orders", 2, durations_ms={}, refilled=True, first_batch=1)
    source, moved, held = steps_json(
        Journey("orders", Change("e"), (former,), (), ("held back by search: too large: 9 MB (quarantine, batch 2)",))
    )
    assert (source["at"], source["place"], source["details"]) == (None, "", [])
    assert (moved["at"], moved["until"], moved["seconds"]) == (former.committed_at.isoformat(),) * 2 + (None,)
    assert moved["details"][-1].startswith("batches 1–2 were merged")
    assert (held["title"], held["details"]) == ("Held back by search", ["too large: 9 MB (quarantine, batch 2)"])
    assert steps_json(Journey("orders", CHANGE)) == steps_json(Journey("", CHANGE))
