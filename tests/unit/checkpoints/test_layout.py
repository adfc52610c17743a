from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from databus.checkpoints.paths import Layout
from databus.core.errors import ConfigError


def test_paths_of_a_flow() -> None:
    paths = Layout().flow("orders_to_kafka")
    root = "/databus/flows/orders_to_kafka"
    assert (paths.epoch, paths.lease, paths.checkpoint, paths.plan) == (
        f"{root}/epoch",
        f"{root}/lease",
        f"{root}/checkpoint",
        f"{root}/plan",
    )
    assert paths.history_entry(42) == f"{root}/history/0000000042"
    assert Layout("/east").server_ids("db:3306") == "/east/servers/db:3306/ids"


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_history_sorts_by_name_as_by_number(a: int, b: int) -> None:
    paths = Layout().flow("f")
    assert (a < b) == (paths.history_entry(a) < paths.history_entry(b))


@given(st.text(max_size=8))
def test_no_name_leads_out_of_the_tree(name: str) -> None:
    try:
        root = Layout().flow(name).root
    except ConfigError:
        return
    assert root == f"/databus/flows/{name}"
    assert "/" not in name
    assert name not in ("", ".", "..")


@pytest.mark.parametrize("server", ["", ".", "..", "a/b", "a\n", "x" * 201])
def test_what_is_no_server(server: str) -> None:
    with pytest.raises(ConfigError):
        Layout().server_ids(server)
