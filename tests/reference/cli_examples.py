"""Example of each command; a test parses them."""

from __future__ import annotations

_WRITTEN = """
flows list
flows show orders_to_kafka
flows validate --connect
flows graph orders_to_kafka
plan orders_to_kafka
run orders_to_kafka --until-caught-up
lag --watch 2
peek orders_to_kafka --from earliest --rows 5
backfill orders_to_kafka --from 2026-05-03T00:00 --to 2026-05-04T00:00 --execute
snapshot show orders_to_kafka
snapshot begin orders_to_kafka --table shop.orders --reason "new index" --execute
snapshot pause orders_to_kafka --reason "busy hours" --execute
snapshot resume orders_to_kafka --execute
snapshot cancel orders_to_kafka --reason "wrong table" --execute
checkpoint show orders_to_kafka
checkpoint history orders_to_kafka --last 20
checkpoint pause orders_to_kafka --reason "maintenance" --execute
checkpoint resume orders_to_kafka --execute
checkpoint rewind orders_to_kafka --batches 3 --reason "bad deploy of 3 May" --execute
checkpoint skip orders_to_kafka --past-gap --repair --reason "log was purged" --execute
checkpoint restore orders_to_kafka 41 --reason "back to before the rewind" --execute
checkpoint accept orders_to_kafka --reason "topic was deleted on purpose" --execute
checkpoint adopt orders_to_kafka --reason "ZooKeeper from an older copy" --execute
quarantine list orders_to_kafka --table shop.orders
quarantine show orders_to_kafka 4f1c:1-77:0
quarantine export orders_to_kafka > held.jsonl
quarantine replay orders_to_kafka --cause not_null --reason "rows are mended" --execute
quarantine discard orders_to_kafka --event 4f1c:1-77:0 --reason "test row" --execute
validate orders_to_kafka --table shop.orders
ledger orders_to_kafka --verify
gaps orders_to_kafka
trace mysql-bin.000007:4711
quality orders_to_kafka --last 20
large-value - --to photo.jpg
mirror translate mirror_cdc cdc.orders 0 4711
mirror offsets mirror_cdc cdc.orders 0 --from 0 --to 5000
mirror sync-groups mirror_cdc --group "billing-*" --execute
mirror lag mirror_cdc
mirror heartbeat mirror_cdc
doctor orders_to_kafka
explain sink_setting
watch --listen 127.0.0.1:9464
stream kafka_east --listen 127.0.0.1:8470 --topics "events.*"
alerts list
alerts test orders_to_kafka
segments list
segments prune --keep 7d,50GB --execute
records prune --keep 30d --execute
outbox install postgres_shop --table public.orders --execute
outbox remove postgres_shop --table public.orders --execute
sandbox up kafka mysql
sandbox down
sandbox status
sandbox logs kafka --lines 50
sandbox restart kafka
sandbox env
decode mysql-bin.000007 --tables shop.orders
"""


def _by_command() -> dict[tuple[str, ...], str]:
    """Return words of a command → its line; groups have two words."""
    groups = {"flows", "snapshot", "checkpoint", "quarantine", "mirror", "alerts", "segments", "records", "outbox"}
    groups |= {"sandbox"}
    found = {}
    for line in _WRITTEN.strip().splitlines():
        words = line.split()
        found[tuple(words[: 2 if words[0] in groups else 1])] = line
    return found


EXAMPLES = _by_command()
"""Words of a command → what stands behind `databus`."""
