"""Changes followed through mirrors between two real clusters; consumers that read both sides whole are the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from databus.core.trace import TraceExpiredError, TraceNotRecordedError, TraceQueryError
from databus.ops.trace.journey import lines
from databus.records import tables as t
from databus.records.store import RecordStore
from tests.integration.commands import Commands
from tests.integration.conftest import Started
from tests.integration.copies import (
    Copies,
    Foreign,
    asked,
    at,
    hops,
    mirrored_twice,
    offset_of,
    require_bytes,
    same_change,
)
from tests.integration.kafka_target import event_id
from tests.integration.kafka_world import SERVERS, KafkaWorld
from tests.integration.mirrors import both_ways

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(started: Started, tmp_path_factory: pytest.TempPathFactory) -> KafkaWorld:
    return KafkaWorld(started(*SERVERS, "mysql"), tmp_path_factory.mktemp("trace_mirror"))


@pytest.fixture(scope="module", params=["debezium", "row"])
def copies(world: KafkaWorld, request: pytest.FixtureRequest) -> Copies:
    return mirrored_twice(world, request.param)


def test_a_change_leads_from_its_gtid_place_event_and_key_to_its_copies(copies: Copies) -> None:
    """Also all changes of a transaction at once, and the tombstone that follows a delete."""
    assert any(at(m) != at(copies.copies(m)[0]) for m in copies.east)  # the sides count differently
    for original in copies.sample():
        event = event_id(original)
        gtid = ":".join(event.split(":")[:2])
        wanted: dict[str, set[Any]] = {}
        for one in copies.east:
            if event_id(one).startswith(f"{gtid}:"):
                wanted.setdefault(event_id(one), set()).update(copies.way(one))
        place = next(iter(copies(event))).change
        for what in (gtid, f"{place.file}:{place.position}"):
            found = {journey.change.event_id: journey for journey in copies(what)}
            assert {name: set(hops(journey)) for name, journey in found.items()} == wanted, what
            for journey in found.values():
                require_bytes(copies, journey)
        (journey,) = copies(event)
        assert set(hops(journey)) == wanted[event]
        batches = {hop.batch.run_id for hop in journey.hops}
        assert batches == {f"run of {copies.there.name}", f"run of {copies.back.name}"}
        for hop in journey.hops:
            assert hop.source is not None
            first, last = hop.batch.start, hop.batch.end
            topic, partition = hop.source.topic, hop.source.partition
            begin = first.positions.get(topic, {}).get(partition, 0)  # type: ignore[attr-defined]
            assert begin <= hop.source.offset < last.positions[topic][partition]  # type: ignore[attr-defined]
    keyed = [m for m in copies.east if m.key() is not None and b"customer_id" in m.key() and m.value() is not None]
    newest = max((m for m in keyed if m.key() == keyed[0].key()), key=offset_of)
    (journey,) = copies(keyed[0].key().decode())
    assert set(copies.way(newest)) <= set(hops(journey))


def test_a_copy_leads_back_over_all_mirrors_to_the_transaction_and_to_all_other_copies(copies: Copies) -> None:
    for original in copies.sample():
        west, again = copies.copies(original)
        for site, place in (("kafka_west", at(west)), ("kafka_east", at(again)), ("kafka_east", at(original))):
            (journey,) = copies(place, site=site)
            assert journey.flow == copies.shop.name
            assert journey.change.event_id == event_id(original)
            assert event_id(original).startswith(f"{journey.change.gtid}:")
            assert journey.change.position is not None
            (batch,) = journey.batches
            assert batch.start.pos < journey.change.position <= batch.end.pos  # type: ignore[attr-defined]
            assert batch.run_id == f"run of {copies.shop.name}"
            assert set(copies.way(original)) <= set(hops(journey))
            assert at(original) in [seen.place for seen in journey.sightings]
            require_bytes(copies, journey)


def test_a_place_that_two_sites_have_is_shown_of_both_unless_one_is_said(copies: Copies) -> None:
    east, west = ({at(m): m for m in side} for side in (copies.east, copies.west))
    place = next(p for p in east if p in west and not same_change(east[p], west[p]) and event_id(west[p]) != "x")
    both = {journey.change.event_id for journey in copies(place)}
    assert both == {event_id(east[place]), event_id(west[place])}
    for site, side in (("kafka_east", east), ("kafka_west", west)):
        assert [journey.change.event_id for journey in copies(place, site=site)] == [event_id(side[place])]
    with pytest.raises(TraceNotRecordedError, match=f"read or written {place} on kafka_north"):
        copies(place, site="kafka_north")
    with pytest.raises(TraceQueryError, match="says where a record stands"):
        copies(event_id(east[place]), site="kafka_east")


def test_the_command_follows_through_the_mirrors_of_its_folder(
    copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for flow in copies.flows:
        told = f"from databus.registry import flow_from_json\nflow = flow_from_json({flow.to_json()!r})\n"
        (tmp_path / f"{flow.name}.py").write_text(f"# databus\n{told}")
    for name, value in copies.world.environment.items():
        monkeypatch.setenv(name, value)
    command = Commands(copies.world, tmp_path, monkeypatch)
    original = copies.sample()[0]
    west, again = copies.copies(original)
    (journey,) = command.json("trace", at(west), "--site", "kafka_west")["journeys"]
    assert journey["change"]["event_id"] == event_id(original)
    assert [(h["mirror"], h["from"], h["to"]) for h in journey["mirrors"]] == [
        (
            copies.there.name,
            {"site": "kafka_east", "place": at(original)},
            {"site": "kafka_west", "place": at(west)},
        ),
        (copies.back.name, {"site": "kafka_west", "place": at(west)}, {"site": "kafka_east", "place": at(again)}),
    ]
    assert journey["mirrors"][0]["batch"]["run_id"] == f"run of {copies.there.name}"
    # A mirror alone: what went through it, with all that is known of it.
    assert command.json("trace", event_id(original), "--flow", copies.back.name)["journeys"] == [journey]
    text = " ".join(command("trace", at(west), "--site", "kafka_west").stdout.split())
    (shown,) = copies(at(west), site="kafka_west")
    for _, told in lines(shown):
        assert all(part in text for part in told.split())


@contextmanager
def without_runs(world: KafkaWorld) -> Iterator[int]:
    """Leave of the recorded maps of mirrors only bounds; yields of how many partitions of batches."""
    mirrors = t.receipts.select().where(t.receipts.c.sink == "mirror")
    with RecordStore(world.settings.records_url) as records:
        with records.transaction() as connection:
            before = connection.execute(mirrors).all()
            changed = 0
            for row in before:
                outputs = {name: dict(told) for name, told in row.outputs.items()}
                for told in outputs.values():
                    if runs := told.pop("runs", None):
                        (first, *_), (start, _, count) = runs[0], runs[-1]
                        told["unsure"] = [[first, start + count, told["first_offset"], told["last_offset"] + 1]]
                        changed += 1
                connection.execute(t.receipts.update().where(t.receipts.c.id == row.id).values(outputs=outputs))
        try:
            yield changed
        finally:
            with records.transaction() as connection:
                for row in before:
                    mine = t.receipts.c.id == row.id
                    connection.execute(t.receipts.update().where(mine).values(outputs=row.outputs))


def test_a_copy_whose_own_offset_no_broker_told_is_found_by_its_bytes(copies: Copies) -> None:
    """The map of a killed run: bounds of what it wrote, from its marker."""
    with without_runs(copies.world) as changed:
        assert changed > 4
        for original in copies.sample():
            _, again = copies.copies(original)
            for what, site in ((event_id(original), ""), (at(again), "kafka_east")):
                (journey,) = copies(what, site=site)
                assert (journey.flow, journey.change.event_id) == (copies.shop.name, event_id(original))
                assert set(copies.way(original)) <= set(hops(journey))


def test_what_the_first_site_keeps_no_more_is_told_from_a_copy(copies: Copies) -> None:
    """Runs last of these: records are deleted."""
    original = next(m for m in copies.sample() if m.value() is not None)
    west, _ = copies.copies(original)
    ends = {(m.topic(), m.partition()) for m in copies.east}
    admin = AdminClient({"bootstrap.servers": copies.world.east.servers})
    for future in admin.delete_records([TopicPartition(topic, p, -1) for topic, p in ends]).values():
        future.result(30)
    for place, site in ((at(west), "kafka_west"), (at(original), "kafka_east")):
        (journey,) = copies(place, site=site)
        assert (journey.flow, journey.change.event_id) == (copies.shop.name, event_id(original))
        assert journey.change.position is not None
        assert (at(original), "not kept there any more") in [(s.place, s.state) for s in journey.sightings]
        assert set(copies.way(original)) <= set(hops(journey))
    with pytest.raises(TraceExpiredError, match=r"is not kept any more.*By the records, batch \d+ of run run of"):
        asked(copies.world, [copies.shop.flow], at(original))


def test_records_of_others_are_followed_over_aborted_transactions_too(world: KafkaWorld) -> None:
    foreign = Foreign(world, 2)
    mirror = foreign.mirror()
    for n in range(6):
        rows = [
            {"key": None if i % 3 else bytes([255, i]), "value": b"\xff%d.%d" % (n, i), "partition": i % 2}
            for i in range(5)
        ]
        world.east.transaction(foreign.topic, rows, commit=n % 3 != 1)
    foreign.run()
    east, west = foreign.sides()
    lies = {m.value(): m for m in west}
    assert any(at(m) != at(lies[m.value()]) for m in east)
    for original in east:
        copy = lies[original.value()]
        for place, site in ((at(original), "kafka_east"), (at(copy), "kafka_west")):
            (journey,) = foreign(place, site=site)
            expected = (mirror.name, "kafka_east", at(original), "kafka_west", at(copy), "")
            assert (journey.flow, hops(journey)) == (mirror.name, [expected])
            assert [(s.site, s.place) for s in journey.sightings] == [("kafka_east", at(original))]
            assert journey.notes == ("no flow here wrote it to kafka_east: another producer did",)
    taken = {offset_of(m) for m in east if m.partition() == 0}
    control = next(o for o in range(max(taken)) if o not in taken)
    with pytest.raises(TraceNotRecordedError, match="holds no record"):
        foreign(f"{foreign.topic}:0:{control}", site="kafka_east")
    with pytest.raises(TraceNotRecordedError, match="read or written"):
        foreign(f"{foreign.topic}:0:{max(map(offset_of, west)) + 50}", site="kafka_west")


def test_why_a_record_has_no_copy_is_told(world: KafkaWorld) -> None:
    foreign = Foreign(world)
    world.west.create(foreign.topic, 1, {"max.message.bytes": "100000"})
    mirror = foreign.mirror(follow_settings=False)
    world.east.write(foreign.topic, [{"value": b"small"}, {"value": b"x" * 200_000}])
    foreign.run()
    world.east.write(foreign.topic, [{"value": b"later"}])
    told = [foreign(f"{foreign.topic}:0:{offset}", site="kafka_east")[0] for offset in range(2)]
    assert [len(journey.hops) for journey in told] == [1, 0]
    assert any(f"mirror {mirror.name} held it back: record_too_large" in note for note in told[1].notes)
    with pytest.raises(TraceNotRecordedError, match=f"no recorded batch of {mirror.name} has read or written"):
        foreign(f"{foreign.topic}:0:2", site="kafka_east")


def test_a_claimed_value_is_known_as_a_copy(world: KafkaWorld) -> None:
    foreign = Foreign(world)
    world.west.create(foreign.topic, 1, {"max.message.bytes": "100000"})
    foreign.mirror(follow_settings=False, too_large="large_value")
    world.east.write(foreign.topic, [{"value": b"small"}, {"value": b"x" * 200_000, "headers": [("h", None)]}])
    foreign.run()
    _, (_, claimed) = foreign.sides()
    assert b"sha256" in claimed.value()
    (journey,) = foreign(at(claimed), site="kafka_west")
    assert [h[2:] for h in hops(journey)] == [(f"{foreign.topic}:0:1", "kafka_west", at(claimed), "")]


def test_two_way_mirrors_end_where_a_record_has_been(world: KafkaWorld) -> None:
    foreign = Foreign(world)
    world.west.create(foreign.topic)
    there, back = both_ways(world, foreign.topic)
    foreign.flows = [there, back]
    world.east.write(foreign.topic, [{"value": f"east {n}".encode()} for n in range(3)])
    world.west.write(foreign.topic, [{"value": f"west {n}".encode()} for n in range(5)])
    foreign.run()
    foreign.run()
    east, west = foreign.sides()
    assert len(east) == len(west) == 8
    for side, other, site, way, home in (
        (east, west, "kafka_east", there, back), (west, east, "kafka_west", back, there),
    ):  # fmt: skip
        for message in side:
            born_here = message.value().startswith(site.removeprefix("kafka_").encode())
            (copy,) = (m for m in other if m.value() == message.value())
            (journey,) = foreign(at(message), site=site)
            (hop,) = hops(journey)
            assert hop[0] == (way if born_here else home).name
            assert {hop[2], hop[4]} == {at(message), at(copy)}
            assert hop[5] == ""
            left_out = home if born_here else way
            assert any(note.startswith(f"mirror {left_out.name} left it out") for note in journey.notes)


def test_records_that_go_round_for_ever_are_not_followed_for_ever(world: KafkaWorld) -> None:
    """Two mirrors without marks, which `databus flows validate` refuses."""
    foreign = Foreign(world)
    world.west.create(foreign.topic)
    foreign.mirror()
    foreign.mirror("kafka_west", "kafka_east")
    world.east.write(foreign.topic, [{"value": b"round"}])
    for _ in range(3):
        foreign.run()
    laps = len(foreign.sides()[0])
    assert laps >= 3
    (journey,) = foreign(f"{foreign.topic}:0:0", site="kafka_east")
    assert len(journey.hops) == 2
    assert any(note.startswith("a loop: mirror") for note in journey.notes)
    last = foreign.sides()[0][-1]
    (journey,) = foreign(at(last), site="kafka_east")
    assert str(journey.hops[0].source) == f"{foreign.topic}:0:0"
    assert len(journey.hops) >= 2 * (laps - 1)


def test_a_copy_of_a_topic_that_was_made_anew_is_not_taken_for_one_of_the_new_records(world: KafkaWorld) -> None:
    foreign = Foreign(world)
    mirror = foreign.mirror(on_gap="earliest")
    world.east.write(foreign.topic, [{"key": b"old", "value": b"%d" % n} for n in range(3)])
    foreign.run()
    world.east.delete(foreign.topic)
    world.east.create(foreign.topic)
    world.east.write(foreign.topic, [{"key": b"new", "value": b"%d" % n} for n in range(2)])
    _, before = foreign.sides()
    noted = "another record stands at its source now", "from a topic that was deleted and made anew since"
    for state in noted:
        (journey,) = foreign(at(before[0]), site="kafka_west")
        assert hops(journey) == [
            (mirror.name, "kafka_east", f"{foreign.topic}:0:0", "kafka_west", at(before[0]), state)
        ]
        assert (journey.change.key, journey.sightings[0].state) == ("old", "not kept there any more")
        assert any("was made anew since" in note for note in journey.notes)
        foreign.run()  # now the mirror knows
    _, after = foreign.sides()
    assert len(after) == 5
    expected = (mirror.name, "kafka_east", f"{foreign.topic}:0:0", "kafka_west", at(after[3]), "")
    for place, site in ((f"{foreign.topic}:0:0", "kafka_east"), (at(after[3]), "kafka_west")):
        (journey,) = foreign(place, site=site)
        assert (journey.change.key, hops(journey)) == ("new", [expected])


def test_a_target_that_is_away_or_was_made_anew_is_named(world: KafkaWorld) -> None:
    foreign = Foreign(world)
    away = world.override("kafka_west", extra={"bootstrap.servers": "127.0.0.1:1"})
    mirror = foreign.mirror()
    world.east.write(foreign.topic, [{"value": b"one"}, {"value": b"two"}])
    foreign.run()
    (sink,) = mirror.sinks
    elsewhere = mirror.model_copy(update={"sinks": (sink.model_copy(update={"conn_id": away}),)})
    (journey,) = asked(world, [elsewhere], f"{foreign.topic}:0:1", site="kafka_east")
    (hop,) = journey.hops
    assert (hop.target and (hop.target.site, hop.target.offset)) == (away, 1)
    assert hop.state.startswith("not looked at: ")
    world.west.delete(foreign.topic)
    world.west.create(foreign.topic)
    world.west.write(foreign.topic, [{"value": b"another"}])
    states = [foreign(f"{foreign.topic}:0:{n}", site="kafka_east")[0].hops[0].state for n in range(2)]
    assert states == ["another record stands there now: the topic was made anew", "not kept there any more"]
