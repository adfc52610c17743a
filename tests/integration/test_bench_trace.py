"""The trace benchmark at its smallest size: each way of asking is answered as a consumer would."""

from __future__ import annotations

import pytest

from databus import Flow
from databus.bench import trace as bench
from databus.bench.options import TraceOptions
from databus.core.errors import ReconciliationError
from databus.records.provenance import Provenance
from databus.records.quick_reader import RecordReader
from databus.records.ranges import SOURCE
from tests.integration.conftest import Started
from tests.integration.one_process import OneProcessWorld

pytestmark = pytest.mark.integration
SMALL = TraceOptions(recorded=60_000, changes=5_000, records=1, repeats=1, documents=False)


def test_every_way_of_asking_is_measured_among_the_recorded_changes(started: Started) -> None:
    sandbox = started("zookeeper", "kafka", "mysql")
    world = OneProcessWorld(sandbox, sandbox.home)
    assert world.settings.records_url == f"sqlite:///{sandbox.home / 'records.db'}"
    moved: list[Flow] = []

    def move(flow: Flow) -> int:
        moved.append(flow)
        return world.run(flow).rows

    said: list[str] = []
    result = bench.measure(sandbox, move, SMALL, said.append)
    asked = {bar.key for bar in bench.BARS} - {"document_seconds"}
    assert asked <= set(result.figures)
    assert all(value > 0 for value in result.figures.values())
    with RecordReader(world.settings.records_url) as records:
        provenance = Provenance(records)
        (stream,) = provenance.streams(bench.NAME, SOURCE)
        after, upto = provenance.bounds(bench.NAME, SOURCE, stream) or (0, 0)
        assert upto - after > 55_000 * 400  # the log places of what was recorded only
        assert len(provenance.streams(bench.NAME, "output")) == 4
    assert said
    wrong = bench.KnownRecord("traced:0:1", "", "", "", '{"id":-1}', "")
    with pytest.raises(ReconciliationError, match="is not in"):
        bench._ask(sandbox, sandbox.home / "traced_dags", wrong, "key")
    assert moved[0].name == bench.NAME
