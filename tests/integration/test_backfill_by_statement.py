"""A range that holds a table made of a query by statement: a backfill passes it where the flow was moved over it."""

from __future__ import annotations

import pytest

from databus.core.errors import DecodeError
from databus.ops.checkpoint import amend as mediation
from databus.ops.checkpoint.amend import Attribution
from databus.ops.checkpoint.targets import Target
from databus.ops.services import open_services
from tests.integration.backfills import BackfillShop
from tests.integration.conftest import World
from tests.integration.followed_hints import advised, forget_log_of
from tests.integration.statements import run_sql

pytestmark = pytest.mark.integration


def test_what_the_flow_was_moved_over_as_advised_a_backfill_passes(world: World) -> None:
    shop = BackfillShop.of(world, "bf_by_statement")
    flow, connection = shop.shop.flow, shop.shop.connection
    shop.commit_at(0, 5)
    run_sql(connection, f"CREATE DATABASE {shop.name}_other", "SET @a = 1", "SET SESSION binlog_format = 'STATEMENT'")
    run_sql(connection, f"CREATE TABLE {shop.name}_other.y AS SELECT @a", "SET SESSION binlog_format = 'ROW'")
    shop.commit_at(1, 5)
    with pytest.raises(DecodeError, match="changes rows by statement") as stopped:
        shop.live()
    with open_services(flow, world.connections, world.settings) as services:
        place = Target(place=advised(stopped.value))
        mediation.execute(flow, services, "skip", place, Attribution("ada", "another database"))
    shop.live()
    assert shop.backfill(shop.at(0), shop.at(2)).done
    assert set(shop.ids(".replay")) == set(shop.ids())
    run_sql(connection, f"DROP DATABASE {shop.name}_other")
    forget_log_of(connection)
