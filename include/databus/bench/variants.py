"""Variants of the end-to-end run: with transforms, in Avro, by Spark's lane; each beside a Debezium of the like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from databus.bench.options import E2EOptions
from databus.bench.our_path import OurRun, PathForm
from databus.bench.peer import SETTINGS, TABLE, DebeziumPeer, PeerRun
from databus.sandbox import Sandbox
from databus.sandbox.servers.debezium import AVRO_CONVERTER

PLAIN, TRANSFORMS, AVRO = "peer", "peer_transforms", "peer_avro"
"""Debezium's connectors."""

_WITHIN_S = 1800.0
_ONE_EACH = {**SETTINGS, "tombstones.on.delete": "false"}
"""One message for each row change, as ours."""
_FILTER = "org.apache.kafka.connect.transforms"
_CHANGED = {
    "column.mask.with.3.chars": f"{TABLE}.title",
    "column.mask.hash.v2.SHA-256.with.salt.none": f"{TABLE}.code",
    "transforms": "drop",
    "transforms.drop.type": f"{_FILTER}.Filter",
    "transforms.drop.predicate": "gone",
    "predicates": "gone",
    "predicates.gone.type": f"{_FILTER}.predicates.RecordIsTombstone",
}
"""Debezium masks and hashes columns of both images: Kafka's MaskField reaches the first level of a message alone.
Its own Filter needs a scripting engine; Kafka's has a predicate, which no record satisfies: all pass, as with ours."""


def peer_settings(name: str, registry: str = "") -> dict[str, str]:
    """Return the settings of one of Debezium's connectors.

    Args:
        name: `PLAIN`, `TRANSFORMS` or `AVRO`.
        registry: address of the schema registry (Apicurio), of `AVRO`.
    """
    if name == TRANSFORMS:
        return _ONE_EACH | _CHANGED
    if name != AVRO:
        return dict(_ONE_EACH)
    converter = {
        "": AVRO_CONVERTER,
        ".apicurio.registry.url": f"http://{registry}/apis/registry/v2",
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.find-latest": "true",
        ".apicurio.registry.headers.enabled": "false",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
    }
    sides = {f"{side}.converter{option}": value for side in ("key", "value") for option, value in converter.items()}
    return _ONE_EACH | sides | {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}


@dataclass(frozen=True)
class Variant:
    """Variant of our path.

    Attributes:
        name: begins the names of its figures.
        said: what it is, in a line of progress.
        peer: Debezium's connector of the like.
        ours: form of our path.
    """

    name: str
    said: str
    peer: str
    ours: PathForm


_WITH_TRANSFORMS = Variant("with_transforms", "with transforms", TRANSFORMS, PathForm(transforms=True))
_IN_AVRO = Variant("avro", "in Avro", AVRO, PathForm(avro=True))
_BY_SPARK = Variant("spark_lane", "with transforms, by Spark", TRANSFORMS, PathForm(transforms=True, lane="spark"))


def variants_of(options: E2EOptions) -> tuple[Variant, ...]:
    """Return the variants that a run is asked for."""
    asked = ((_WITH_TRANSFORMS, options.transforms), (_IN_AVRO, options.avro), (_BY_SPARK, options.spark_lane))
    return tuple(variant for variant, wanted in asked if wanted)


class Peers:
    """Debezium's connectors of a run, of which one works at a time.

    Args:
        sandbox: the servers.
        names: the connectors, each once.
    """

    def __init__(self, sandbox: Sandbox, names: Sequence[str]) -> None:
        addresses = {server.name: server.address for server in sandbox.status()}
        self.settings = {name: peer_settings(name, addresses.get("apicurio", "")) for name in dict.fromkeys(names)}
        self._peers = {name: DebeziumPeer(sandbox, name, settings=told) for name, told in self.settings.items()}
        self._warm = 0

    def warm_up(self, rows: int) -> None:
        """Let each of them move the log so far, which has so many rows."""
        self._warm = rows
        for peer in self._peers.values():
            peer.catch_up(rows, _WITHIN_S)
            peer.stop()

    def run(self, name: str, rows: int) -> PeerRun:
        """Return how one of them moved the rows behind the warm-up."""
        peer = self._peers[name]
        found = peer.catch_up(self._warm + rows, _WITHIN_S, known=self._warm)
        peer.stop()
        return found


def figures_of(variant: Variant, rows: int, mine: OurRun, plain: OurRun, theirs: PeerRun | None) -> dict[str, float]:
    """Return the figures of a variant: its rates, over those of the plain path, and over those of its peer."""
    name = variant.name
    found = {
        f"{name}_rows_per_second": rows / mine.seconds,
        f"{name}_rows_per_cpu_second": rows / mine.cpu_seconds,
        f"{name}_ratio_to_plain": plain.seconds / mine.seconds,
        f"{name}_cpu_ratio_to_plain": plain.cpu_seconds / mine.cpu_seconds,
    }
    if theirs is not None:
        found[f"{name}_ratio_to_debezium"] = theirs.seconds / mine.seconds
        found[f"{name}_ratio_to_debezium_rows_per_cpu_second"] = theirs.cpu_seconds / mine.cpu_seconds
    return found
