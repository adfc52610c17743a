"""Faults of servers, their members, and the connections to them; each returns the moment it was over."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.faults.mixed.cluster import MEMBERS, ZOOKEEPER
from tests.faults.mixed.scene import Scene, bring_up, restart


def member_killed(server: str, role: Callable[[Scene], str]) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        chosen = role(scene)
        scene.report.note(f"{server} {chosen} is killed")
        scene.world.sandbox.kill(server, chosen)
        scene.lasts()
        restart(scene, server, chosen)
        return time.time()

    return fault


def member_restarted(server: str, role: Callable[[Scene], str]) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        restart(scene, server, role(scene))
        return time.time()

    return fault


def member_paused(server: str, role: Callable[[Scene], str], lasts_s: float) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        chosen = role(scene)
        scene.world.sandbox.pause(server, chosen)
        time.sleep(lasts_s)
        scene.world.sandbox.resume(server, chosen)
        return time.time()

    return fault


def majority_lost(scene: Scene) -> float:
    """Two of three members of the ensemble are down."""
    gone = scene.chance.sample(MEMBERS, 2)
    for member in gone:
        scene.world.sandbox.kill(ZOOKEEPER, f"server-{member}")
    scene.lasts()
    restart(scene, ZOOKEEPER, f"server-{gone[0]}")  # starts every member that is missing, and leaves the third alone
    return time.time()


def server_killed(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        scene.world.sandbox.kill(server)
        scene.lasts()
        bring_up(scene, server)
        return time.time()

    return fault


def server_restarted(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        restart(scene, server)
        return time.time()

    return fault


def server_paused(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        scene.world.sandbox.pause(server)
        scene.lasts()
        scene.world.sandbox.resume(server)
        return time.time()

    return fault


def cut(server: str) -> Callable[[Scene], float]:
    """Connections are lost again and again."""

    def fault(scene: Scene) -> float:
        for _ in range(6):
            scene.world.proxies[server].cut()
            time.sleep(scene.chance.uniform(0.1, 1.0))
        return time.time()

    return fault


def delayed(server: str) -> Callable[[Scene], float]:
    def fault(scene: Scene) -> float:
        scene.world.proxies[server].delay(scene.chance.choice((0.05, 0.2, 0.5)))
        scene.lasts()
        scene.world.proxies[server].heal()
        return time.time()

    return fault


def partitioned(server: str) -> Callable[[Scene], float]:
    """Nothing passes to the server, or from it, or neither way; connections stay open."""

    def fault(scene: Scene) -> float:
        ways = scene.chance.choice((("to",), ("from",), ("to", "from")))
        scene.report.note(f"nothing passes {' or '.join(ways)} {server}")
        scene.world.proxies[server].stop(*ways)
        scene.lasts()
        scene.world.proxies[server].heal()
        return time.time()

    return fault


def any_broker(scene: Scene) -> str:
    return f"broker-{scene.chance.choice(MEMBERS)}"


def coordinator(scene: Scene) -> str:
    return f"broker-{scene.cluster.coordinator(scene.transactional_id)}"


def leader(scene: Scene) -> str:
    return f"server-{scene.cluster.zookeeper_member('leader')}"


def any_member(scene: Scene) -> str:
    return f"server-{scene.cluster.zookeeper_member(scene.chance.choice(('leader', 'follower')))}"
