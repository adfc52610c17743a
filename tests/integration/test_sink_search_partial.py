"""A primary-key update without all its columns: the old document stands in for the new one until there is one."""

from __future__ import annotations

import pytest

from tests.integration import search_target as given
from tests.integration.search_target import change

pytestmark = pytest.mark.integration
connection, client, target = given.connection, given.client, given.target

MOVED = (
    change("d", 1, None, 200, absent=["n"], other=2),
    change("c", 2, {"id": 2}, 200, part=1, absent=["n"], other=1),
)


def test_a_cut_key_update_is_held_back_as_a_pair_and_its_replay_repairs(target):
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": 1}, 100))
    for mode in ("live", "replay"):
        receipt = to.write(*MOVED, mode=mode)
        assert to.documents() == {"1": {"id": 1, "n": 1}}
        assert {row.key: row.cause for row in receipt.rejected} == {
            '{"id":1}': 'sink_partial_image: the key became {"id":2}, and the after-image lacks n: its client logs '
            "with another binlog_row_image than FULL",
            '{"id":2}': "sink_partial_image: the after-image lacks n: its client logs with another binlog_row_image "
            "than FULL",
        }
    to.write(change("u", 2, {"n": 5}, 300))
    assert to.documents() == {"1": {"id": 1, "n": 1}, "2": {"id": 2, "n": 5}}
    repaired = to.write(*MOVED, mode="replay")
    assert (repaired.rows, repaired.rejected) == ({"shop.Orders": 2}, ())
    assert to.documents() == {"2": {"id": 2, "n": 5}}


def test_the_old_key_may_be_in_use_again_by_the_time_of_the_replay(target):
    to = target()
    to.prepare()
    to.write(change("c", 1, {"n": 1}, 100))
    to.write(*MOVED)
    to.write(change("u", 2, {"n": 5}, 300), change("c", 1, {"n": 7}, 400))
    to.write(*MOVED, mode="replay")
    assert to.documents() == {"1": {"id": 1, "n": 7}, "2": {"id": 2, "n": 5}}
