"""Every flow of the plane's bench is heard of, however short the run; the worst of them is named."""

from __future__ import annotations

from itertools import pairwise

import pytest

from databus.bench.airflow.flow_freshness import FlowClass, FlowRows, table


def of(**rows: list[float]) -> FlowClass:
    flows = {name: FlowRows(len(delays), dict(enumerate(delays, start=1))) for name, delays in rows.items()}
    return FlowClass("economy", 600.0, flows)


@pytest.mark.parametrize("seconds", [30.0, 480.0, 600.0, 1800.0])
def test_each_flow_gets_its_first_row_within_the_run_however_short(seconds: float) -> None:
    flows = FlowClass("economy", 600.0, {f"eco_{n:03}": FlowRows() for n in range(195)})
    due = flows.due(seconds)
    assert [name for _, name in due] == list(flows.flows)
    moments = [at for at, _ in due]
    assert moments[0] > 0
    assert moments[-1] < min(seconds, 600.0)
    apart = {round(after - before, 6) for before, after in pairwise(moments)}
    assert apart == {round(min(seconds, 600.0) / 195, 6)}  # spread over the run


def test_the_worst_flow_is_named_by_its_median_and_the_slowest_row_is_the_classes_maximum() -> None:
    found = of(quick=[1.0, 1.0, 90.0], slow=[7.0, 8.0, 9.0], silent=[])
    figures = found.figures()
    assert found.worst() == ("slow", 8.0)
    assert (figures["economy_worst_flow_p50_s"], figures["economy_max_s"]) == (8.0, 90.0)
    assert (figures["economy_rows"], figures["economy_flows_without_row"]) == (6, 1)
    assert list(found.lines()) == [
        "economy: worst flow slow, p50 8.00 s, max 9.00 s",
        "economy: nothing was read of 1 flows, such as silent",
    ]


def test_a_row_that_comes_twice_is_one_row_and_one_that_does_not_come_is_missing() -> None:
    flow = FlowRows(sent=3)
    for number, delay in ((1, 0.5), (2, 0.6), (1, 9.0)):
        flow.arrived(number, delay)
    assert (flow.missing, flow.repeated, flow.delays_s) == (1, 1, {1: 0.5, 2: 0.6})


def test_the_result_has_a_line_of_each_flow() -> None:
    silent = FlowRows(sent=1)
    assert table([of(a=[0.25, 0.5, 0.75]), FlowClass("live", 0.2, {"b": silent})]) == {
        "a": {"mode": "economy", "sent": 3, "arrived": 3, "p50_s": 0.5, "max_s": 0.75},
        "b": {"mode": "live", "sent": 1, "arrived": 0},
    }
    assert FlowClass("live", 0.2, {"b": silent}).figures() == {"live_rows": 0, "live_flows_without_row": 1}
