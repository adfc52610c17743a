"""Which fault befalls which round: drawn from a seed alone, so that the same seed gives the same schedule."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.faults.points import DRIVER_POINTS, EXECUTOR_POINTS

TASK_FAULTS = (
    "kill driver",
    "kill executor",
    "kill both",
    "kill at driver point",
    "kill at executor point",
    "kill under a wrong clock",
    "zombie driver",
    "zombie both",
    "zombie executor",
    "late initialiser",
)
SERVER_FAULTS = (
    "kafka killed",
    "kafka restarted",
    "kafka paused",
    "kafka cut",
    "kafka delayed",
    "kafka hears not",
    "kafka unheard",
    "zookeeper killed",
    "zookeeper restarted",
    "zookeeper paused",
    "zookeeper cut",
    "zookeeper delayed",
    "zookeeper hears not",
    "zookeeper unheard",
    "mysql killed",
    "mysql restarted",
    "mysql cut",
    "mysql delayed",
    "mysql hears not",
    "mysql unheard",
    "disk full",
)
_ZOMBIE_POINTS = tuple(p for p in DRIVER_POINTS if p not in ("claim.before", "release.before", "release.after"))


@dataclass(frozen=True)
class Fault:
    """What befalls one round.

    Attributes:
        kind: one of TASK_FAULTS or SERVER_FAULTS.
        point: named point at which it happens; "" for a random moment.
        hit: at which passing of the point.
        after_s: how long after the claim of the lease, where there is no point.
        lasts_s: how long a server's fault lasts.
        slot: which executor.
        timed_out: a zombie's session ends by its time-out instead of being closed by the harness.
        commits: batches that the new holder commits before a zombie wakes.
        max_rows: bound of a batch.
        clock_offset_s: how wrong the run's clock is, where that is the fault.
    """

    kind: str
    point: str
    hit: int
    after_s: float
    lasts_s: float
    slot: int
    timed_out: bool
    commits: int
    max_rows: int
    clock_offset_s: float


def schedule(
    rounds: int,
    seed: int,
    server_share: float = 0.1,
    kinds: tuple[str, ...] = (),
    of_servers: tuple[str, ...] = SERVER_FAULTS,
) -> list[Fault]:
    """Return the faults of so many rounds; every tenth befalls a server, each kind in turn.

    Args:
        rounds: how many.
        seed: decides everything.
        server_share: share of rounds whose fault is a server's.
        kinds: take only these kinds, in turn.
        of_servers: the kinds that befall servers.
    """
    chance = random.Random(f"schedule {seed}")
    servers, tasks = _in_turn(of_servers, chance), _in_turn(TASK_FAULTS, chance)
    chosen = _in_turn(kinds, chance) if kinds else None
    every = round(1 / server_share) if server_share else 0
    found = []
    for number in range(rounds):
        of_server = every and number % every == every - 1
        kind = next(chosen) if chosen else next(servers) if of_server else next(tasks)
        point = ""
        if kind == "kill at driver point":
            point = chance.choice(DRIVER_POINTS)
        elif kind in ("kill at executor point", "zombie executor"):
            point = chance.choice(EXECUTOR_POINTS)
        elif kind in ("zombie driver", "zombie both") and chance.random() < 0.8:
            point = chance.choice(_ZOMBIE_POINTS)
        elif kind == "late initialiser":
            point = "init.before"
        once = point.startswith(("claim", "release")) or kind == "late initialiser"
        found.append(
            Fault(
                kind,
                point,
                hit=1
                if once or kind == "late initialiser"
                else chance.randint(1, 4 if point in EXECUTOR_POINTS else 2),
                after_s=chance.uniform(0, 1.5),
                lasts_s=chance.choice((0.3, 1.0, 2.0, 4.5)),
                slot=chance.randrange(2),
                timed_out=chance.random() < 0.15,
                commits=chance.randint(1, 3),
                max_rows=chance.choice((5, 20, 60)),
                clock_offset_s=chance.choice((-3600.0, 3600.0)),
            )
        )
    return found


def _in_turn(kinds: tuple[str, ...], chance: random.Random):  # type: ignore[no-untyped-def]
    while True:
        yield from chance.sample(kinds, len(kinds))
