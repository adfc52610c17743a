"""Result files and bars: a figure below its bar fails the run and is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from databus.bench.e2e import compared
from databus.bench.options import E2EOptions
from databus.bench.our_path import OurRun
from databus.bench.peer import PeerRun
from databus.bench.results import Bar, Result
from databus.bench.variants import AVRO, PLAIN, TRANSFORMS, figures_of, peer_settings, variants_of

BARS = (Bar("rate", at_least=100), Bar("growth", at_most=2.2), Bar("scaling", at_least=1.6))


def result(**figures: float) -> Result:
    return Result("decode", figures, BARS, {"changes": 5}, {"note": "x"}, "rate")


@pytest.mark.parametrize(
    ("figures", "missed"),
    [
        ({"rate": 100, "growth": 2.2}, []),
        ({"rate": 99.9, "growth": 2.0}, ["rate"]),
        ({"rate": 100, "growth": 2.21}, ["growth"]),
        ({"rate": float("nan"), "growth": float("nan")}, ["rate", "growth"]),
        ({"rate": 500, "scaling": 1.5}, ["scaling"]),
    ],
)
def test_bars_are_inclusive_and_not_measured_is_not_missed(figures: dict[str, float], missed: list[str]) -> None:
    found = result(**figures)
    assert [bar.key for bar in found.missed] == missed
    assert found.passed is (not missed)


def test_a_run_without_its_headline_fails() -> None:
    found = result(growth=1.0)
    assert not found.passed
    assert "rate was not measured" in found.line()


def test_the_last_line_states_the_figure() -> None:
    assert result(rate=1234.5).line() == "decode: rate 1,234.5 (bar ≥ 100): passed"
    assert result(rate=1).line() == "decode: rate 1 (bar ≥ 100); below its bar: rate: FAILED"


def test_the_table_shows_figures_with_their_bars() -> None:
    assert result(rate=1, other=7).rows() == [
        {"figure": "rate", "value": 1, "bar": "≥ 100", "state": "missed"},
        {"figure": "other", "value": 7, "bar": None, "state": None},
    ]


def test_the_file_holds_figures_settings_and_hardware(tmp_path: Path) -> None:
    path = result(rate=100, growth=3).write(tmp_path / "new")
    assert path.name == "decode.json"
    stored = json.loads(path.read_text())
    assert (stored["rate"], stored["passed"], stored["missed"]) == (100, False, ["growth"])
    assert stored["settings"] == {"changes": 5}
    assert stored["hardware"]["cores"] >= 1
    assert {"databus", "pyarrow", "MYSQL_VERSION", "DEBEZIUM_VERSION"} <= set(stored["versions"])


def test_ratios_say_how_many_times_the_peer_we_are() -> None:
    ours = OurRun(rows=600, bytes=1, batches=1, seconds=2.0, cpu_seconds=4.0, stages_ms={}, rss_mb=1)
    checked = OurRun(rows=600, bytes=1, batches=1, seconds=3.0, cpu_seconds=6.0, stages_ms={}, rss_mb=1)
    theirs = PeerRun(rows=600, seconds=6.0, first_row_s=1.0, cpu_seconds=12.0, rss_mb=1)
    found = compared(600, ours, checked, theirs)
    assert (found["debezium_rows_per_second"], found["debezium_rows_per_cpu_second"]) == (100, 50)
    assert (found["ratio_to_debezium"], found["ratio_to_debezium_rows_per_cpu_second"]) == (3.0, 3.0)
    assert found["with_checks_ratio_to_debezium"] == 2.0
    slower = OurRun(rows=600, bytes=1, batches=1, seconds=4.0, cpu_seconds=24.0, stages_ms={}, rss_mb=1)
    for variant in variants_of(E2EOptions(spark_lane=False)):
        beside = figures_of(variant, 600, slower, ours, theirs)
        assert beside[f"{variant.name}_ratio_to_debezium"] == 1.5
        assert beside[f"{variant.name}_ratio_to_debezium_rows_per_cpu_second"] == 0.5
        assert beside[f"{variant.name}_ratio_to_plain"] == 0.5
        alone = figures_of(variant, 600, slower, ours, None)
        assert alone.items() <= beside.items()
        assert not any("debezium" in name for name in alone)


def test_a_peer_writes_one_message_for_each_row_in_our_form() -> None:
    plain, changed, avro = (peer_settings(name, "127.0.0.1:9085") for name in (PLAIN, TRANSFORMS, AVRO))
    assert {each["tombstones.on.delete"] for each in (plain, changed, avro)} == {"false"}
    assert changed["column.mask.with.3.chars"] == "bench.orders.title"
    assert avro["key.converter.apicurio.registry.url"] == avro["value.converter.apicurio.registry.url"]
    assert not any("converter" in name for name in plain | changed)
