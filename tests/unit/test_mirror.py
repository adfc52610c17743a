"""What a mirror's definition gives and what it refuses."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from databus import DropColumns, Filter, Flow, Hash, KafkaTopics, Mask, Mirror, MirrorTopics, RenameColumns, Route
from databus.cli.main import app
from databus.core.errors import ConfigError, SinkSettingError
from databus.core.flow_specs import TransformSpec
from databus.ops.runs.preview import _lanes
from databus.registry import flow_from_json
from databus.runtime.direct.lane import may_be_direct
from databus.runtime.direct.required import lane_findings, require_lane


def mirror(**options: Any) -> Flow:
    return Mirror(
        **{
            "name": "m",
            "source_conn_id": "kafka_east",
            "target_conn_id": "kafka_west",
            "topics": ("shop.*",),
            **options,
        }
    )


def sink(**options: Any) -> MirrorTopics:
    (made,) = mirror(**options).sinks
    assert isinstance(made, MirrorTopics)
    return made


def test_a_mirror_is_a_flow_of_raw_records_in_the_direct_lane() -> None:
    made = mirror(exclude_topics=("shop.private",), slots=4, two_way="back", description="east to west")
    assert may_be_direct(made)
    assert isinstance(made.source, KafkaTopics)
    assert (made.source.raw, made.source.leave_out, made.source.start) == (True, "kafka_west", "earliest")
    (written,) = made.sinks
    assert isinstance(written, MirrorTopics)
    assert (written.slots, written.origin, written.partner) == (4, "kafka_east", "back")
    assert flow_from_json(made.to_json()) == made


def test_what_is_said_to_be_for_both_sides_reaches_both() -> None:
    flow = Mirror(name="m", source_conn_id="east", target_conn_id="west", topics="t", timeout=timedelta(seconds=7.0))
    assert [part.timeout_s for part in (flow.source, *flow.sinks)] == [7.0, 7.0]  # type: ignore[attr-defined]


def test_what_a_mirror_follows_is_said_or_left_out() -> None:
    assert (sink().follow_settings, sink(two_way="back").follow_settings) == (True, False)
    assert sink(two_way="back", follow_settings=True).follow_settings
    made = mirror(topics="t", heartbeat=timedelta(seconds=10), renames={"t": "u"})
    assert isinstance(made.source, KafkaTopics)
    assert made.source.topics == ("t", "heartbeats")
    assert sink(topics="t", heartbeat=timedelta(seconds=10)).target("heartbeats") == "kafka_east.heartbeats"
    assert [sink(topics=("a*", "__own"), exclude_topics=("ab",)).wants(name) for name in ("ac", "ab", "__own")] == [
        True, False, True,
    ]  # fmt: skip
    assert not sink(topics="*").wants("__consumer_offsets")


def test_origins_and_bounds_are_said_in_a_word() -> None:
    def origin(**options: Any) -> tuple[str, str]:
        made = mirror(**options)
        assert isinstance(made.source, KafkaTopics)
        return sink(**options).origin, made.source.leave_out

    assert origin() == ("", "")
    assert origin(origin=True) == origin(two_way="back") == ("kafka_east", "kafka_west")
    assert origin(forward=False) == ("kafka_east", "*")
    assert mirror(max_bytes_per_s=50_000).batching.max_bytes == 50_000
    assert mirror(max_bytes_per_s=10**12).batching.max_bytes == mirror().batching.max_bytes


def test_names_are_kept_prefixed_or_renamed() -> None:
    assert sink().targets(["a", "b"]) == {"a": "a", "b": "b"}
    assert sink(policy="prefix", renames={"b": "c"}).targets(["a", "b"]) == {"a": "kafka_east.a", "b": "c"}
    with pytest.raises(SinkSettingError, match="a and b would both be a") as refused:
        sink(renames={"b": "a"}).targets(["a", "b"])
    assert refused.value.code == "mirror_rename_clash"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_conn_id": "kafka_east"}, "a loop"),
        ({"policy": "both"}, "policy='both' is unknown"),
        ({"speed": 1}, "unknown option speed"),
        ({"transforms": ()}, "unknown option transforms"),
        ({"topics": ()}, "topics"),
        ({"renames": {"a": "x", "b": "x"}}, "renames send two topics to x"),
        ({"renames": {"a": "x y"}}, "is no name for a topic"),
        ({"max_bytes_per_s": 1}, "max_bytes_per_s"),
        ({"too_large": "drop"}, "too_large"),
        ({"producer": {"acks": "1"}}, "exactly once rests on it"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        mirror(**options)


def test_large_records_of_a_mirror_are_too_larges_alone() -> None:
    with pytest.raises(ConfigError, match="too_large says what becomes of records that are too large, not on_reject"):
        MirrorTopics(conn_id="west", source_conn_id="east", on_reject="fail")


@pytest.mark.parametrize(
    "spec", [Filter("key IS NULL"), Mask("value"), Hash("value"), DropColumns("value"), RenameColumns({"value": "v"})]
)
def test_a_transform_of_raw_records_is_refused_by_name(spec: TransformSpec) -> None:
    flow = Flow(name="m", source=mirror().source, transforms=(Route({"*": "r"}), spec), sinks=mirror().sinks)
    said = f"flow m, sink mirror: a mirror hands records on byte for byte, and transform {spec.label()} would"

    (finding,) = lane_findings(flow)
    assert finding.message.startswith(said)
    with pytest.raises(ConfigError) as refused:
        require_lane(flow, None)  # type: ignore[arg-type] # no table is asked
    assert refused.value.message == finding.message
    assert _lanes(flow, ()) == {"*": f"none: {finding.message}"}


def test_validate_tells_it(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "from databus import DropColumns, Flow, Mirror\n"
        "made = Mirror(name='m', source_conn_id='a', target_conn_id='b', topics='t')\n"
        "flow = Flow(name='f', source=made.source, transforms=(DropColumns('value'),), sinks=made.sinks)\n"
        "del made\n"
    )
    told = CliRunner().invoke(app, ["flows", "validate", "--dags", str(tmp_path), "-o", "json"])
    assert told.exit_code == 2
    assert "a mirror hands records on byte for byte, and transform drop value would" in told.stdout


def test_a_route_of_raw_records_is_none_of_these() -> None:
    flow = Flow(name="m", source=mirror().source, transforms=(Route({"*": "r"}),), sinks=mirror().sinks)
    assert lane_findings(flow) == []
