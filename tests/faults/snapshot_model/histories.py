"""Histories of the snapshot model: each decided by a seed alone."""

from __future__ import annotations

import random
from contextlib import suppress

from tests.faults.snapshot_model.entries import KEYS
from tests.faults.snapshot_model.flow import Flow
from tests.faults.snapshot_model.rules import PROTOCOL, Rules
from tests.faults.snapshot_model.server import Server
from tests.faults.snapshot_model.sinks import Killed, Violation
from tests.faults.snapshot_model.standing import check
from tests.faults.snapshot_model.views import World

_TURNS = 14
_LAST_TURNS = 40


def play(seed: int, rules: Rules = PROTOCOL, trace: list[str] | None = None) -> str:
    """Play a history; return the invariant that it violates, "" for none.

    Args:
        seed: decides everything.
        rules: of the protocol.
        trace: gets a line for each step; None for none.
    """
    chance = random.Random(seed).random
    exact = rules.end == "views" or chance() < 0.4
    world = World(
        exact=exact,
        transactional=chance() < 0.85 or rules.tables != "all",
        ordered=exact or chance() < 0.7,
        refuses=chance() < 0.5 or rules.tables != "all",
        instant=chance() < 0.5 and rules.tables != "unseen",
        filtered=chance() < 0.5,
    )
    try:
        server = Server(chance, world, replicated=rules.views == "replica")
        _play(Flow(server, rules, chance, trace))
    except Violation as violation:
        return str(violation)
    return ""


def wrong(seeds: range, rules: Rules = PROTOCOL) -> dict[int, str]:
    """Play histories; return the invariant that each wrong one violates."""
    found = {}
    for seed in seeds:
        if violation := play(seed, rules):
            found[seed] = violation
    return found


def first_wrong(seeds: range, rules: Rules) -> tuple[int, str]:
    """Play histories until one is wrong; return its seed and the invariant that it violates, (-1, "") for none."""
    return next(((seed, violation) for seed in seeds if (violation := play(seed, rules))), (-1, ""))


def _play(flow: Flow) -> None:
    for _ in range(_TURNS):
        flow.person()
        if flow.paused and flow.chance() < 0.3:
            flow.resume()
        with suppress(Killed):
            flow.turn()
        flow.pass_time()
    flow.quiet = True
    flow.server.settle()
    flow.resume()
    for _ in range(_LAST_TURNS):
        flow.turn()
        if _at_rest(flow):
            break
    else:
        raise Violation("the flow does not come to an end")
    whole = flow.flow.snapshot.state == "done"
    if whole:
        flow.flow.done = frozenset(KEYS)
    for name in flow.flow.sinks:
        check(flow.sink(name), flow.flow, flow.server)
    changes = sum(len(entry.rows) for entry in flow.server.log[flow.start + 1 :])
    if flow.records.changes != changes:
        raise Violation(f"{flow.records.changes} changes came, the log has {changes}")


def _at_rest(flow: Flow) -> bool:
    at = flow.flow
    settled = at.plan is None and at.place == flow.server.head and not flow.behind
    return settled and at.snapshot.state in ("done", "cancelled")
