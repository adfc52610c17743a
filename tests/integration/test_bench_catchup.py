"""The catch-up benchmark at its smallest size: a backlog is counted for real, and a count that is off is no figure."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer

from databus.bench.catchup import HOUR_ROWS, measure
from databus.bench.e2e import reconciled
from databus.bench.options import CatchupOptions
from databus.bench.our_path import OurPath, OurRun
from databus.core.errors import ReconciliationError
from databus.demo.consumers import topic_records
from databus.sandbox import Sandbox
from tests.integration.conftest import Started

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

WARM, BACKLOG = 10_000, 5_000


def test_a_backlog_is_cleared_and_counted(started: Started) -> None:
    sandbox, said = started("zookeeper", "kafka", "mysql", "spark"), list[str]()
    with closing(OurPath(sandbox)) as ours:
        result = measure(sandbox, ours, CatchupOptions(BACKLOG, WARM, debezium=False), said.append)
    assert (result.details["warm_up_rows"], result.details["rows"]) == (WARM, BACKLOG)
    assert sum(1 for _ in topic_records(sandbox.address("kafka"), "backlog")) == WARM + BACKLOG
    cleared = result.figures["cleared_in_s"]
    assert result.figures["rows_per_second"] == pytest.approx(BACKLOG / cleared, rel=0.01)
    assert result.figures["hour_at_5000_rows_per_s_cleared_in_s"] == pytest.approx(
        HOUR_ROWS / BACKLOG * cleared, rel=0.01
    )
    assert said[-1].startswith("our flow: ")
    _refuses_other_counts(sandbox, OurRun(**result.details["ours"]))


def _refuses_other_counts(sandbox: Sandbox, found: OurRun) -> None:
    """What was read, what was made and what is in the topic have to be one number."""
    assert reconciled(sandbox, "backlog", found, BACKLOG, known=WARM) is found
    with pytest.raises(ReconciliationError, match="5001 row changes were made, 5000 read, 5000 are in the topic"):
        reconciled(sandbox, "backlog", found, BACKLOG + 1, known=WARM)
    producer = Producer({"bootstrap.servers": sandbox.address("kafka")})
    producer.produce("backlog", b"one too many")
    assert producer.flush(30) == 0
    with pytest.raises(ReconciliationError, match="5000 row changes were made, 5000 read, 5001 are in the topic"):
        reconciled(sandbox, "backlog", found, BACKLOG, known=WARM)
