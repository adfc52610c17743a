"""Options of a consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from databus.consumer.checkpoints import DatabaseCheckpoint, FileCheckpoint
from databus.consumer.filters import Condition
from databus.consumer.progress import Seen
from databus.core.errors.config import ConfigError
from databus.core.packages import require
from databus.kafka.client_settings import allowed

if TYPE_CHECKING:
    from databus.consumer.places import Start
    from databus.consumer.state_topic import StateTopic

_OF_MEMBERS = frozenset({"group.instance.id", "heartbeat.interval.ms", "max.poll.interval.ms", "session.timeout.ms"})
"""Settings of a group's members, which a flow has none of."""


@dataclass(eq=False)
class ConsumerOptions:
    r"""Options of `Changes`.

    Attributes:
        cluster: "host:port,…" of the brokers, or the id of a connection (AIRFLOW_CONN_<ID>, DATABUS_CONNECTIONS).
        topics: name, names, or patterns that begin with `^`, e.g. "cdc.shop.orders" or r"^cdc\.shop\..*".
        group: consumer group, e.g. "billing"; default "", none: without a checkpoint reading begins anew each time.
        start: where a partition without a checkpoint begins: "committed" and "earliest" (its first record), "latest"
            (what comes from now on), "state" (the newest row of each key, from `state`, then what came since), an aware
            datetime (records written since), or {(topic, partition): offset}. Default "committed".
        state: `StateTopic` that the flow keeps; default None.
        behind: what becomes of a partition whose checkpoint retention has passed: "stop" (default) the consumer, or
            begin with the "state".
        tables: "database.table" or patterns with `*`; default all.
        where: function of a change, or {column: value or values}; an update passes where one of its rows does.
        columns: columns that rows keep; default all.
        share: (i, n): the i-th of n shares of the partitions, from 0, without a group's members; default None.
        checkpoint: `FileCheckpoint` or `DatabaseCheckpoint`; default None, the group's offsets.
        ack_by: "loop" (default): a change is acknowledged when the next one is asked for. "explicit": by `ack` alone.
        transaction_topic: topic of BEGIN and END, which `transactions` needs; default "".
        registry: URL of a schema registry, "http://…", or the id of a connection: for records in Avro and JSON Schema.
            Default "", none.
        seen: drops changes that were handled before in this process; default None.
        unreadable: "stop" (default) at a record in no known form, or "skip" it, with a warning.
        until_end: whether to end where all that can be read was read; default False.
        commit_every_s: seconds between two checkpoints at most where `ack_by` is "loop"; 0 for one at each batch that
            is taken from the topic. After a kill what came since is repeated. Default 1.
        client: librdkafka settings of the consumer that tune it, and of a group's member, e.g.
            {"max.poll.interval.ms": 600_000} where a change may take longer than five minutes.
    """

    cluster: str
    topics: str | Sequence[str]
    group: str = ""
    start: Start = "committed"
    state: StateTopic | None = None
    behind: Literal["stop", "state"] = "stop"
    tables: Sequence[str] = ()
    where: Condition | None = None
    columns: Sequence[str] = ()
    share: tuple[int, int] | None = None
    checkpoint: FileCheckpoint | DatabaseCheckpoint | None = None
    ack_by: Literal["loop", "explicit"] = "loop"
    transaction_topic: str = ""
    registry: str = ""
    seen: Seen | None = None
    unreadable: Literal["stop", "skip"] = "stop"
    until_end: bool = False
    commit_every_s: float = 1.0
    client: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse options that do not go together.

        Raises:
            ConfigError: names them.
            PackageMissingError: a package of the extra `consumer` is not installed.
        """
        require(("consumer", "registry") if self.registry else ("consumer",), "databus.consumer")
        if not self.topics or not self.cluster:
            raise ConfigError("a consumer needs a cluster and topics", hint='Changes("kafka:9092", "cdc.shop.orders")')
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            raise ConfigError("start is a time without a zone", hint="datetime.now(UTC) - timedelta(hours=1), e.g.")
        if self.share is not None and not 0 <= self.share[0] < self.share[1]:
            raise ConfigError(f"share is (i, n) with i from 0 to n - 1, not {self.share}")
        if self.seen is not None and isinstance(self.checkpoint, DatabaseCheckpoint):
            raise ConfigError("seen is not for a checkpoint in the database: with it nothing comes twice")
        if isinstance(self.checkpoint, FileCheckpoint) and self.group:
            raise ConfigError(
                "a consumer has a group or a checkpoint in a file",
                hint="Leave group out; several processes share the partitions by share=(i, n), each with its file.",
            )
        if self.ack_by not in ("loop", "explicit") or self.unreadable not in ("stop", "skip"):
            raise ConfigError('ack_by is "loop" or "explicit", unreadable "stop" or "skip"')
        if isinstance(self.start, str) and self.start not in ("committed", "earliest", "latest", "state"):
            raise ConfigError(
                f'start is "committed", "earliest", "latest", "state", a time or offsets, not {self.start!r}'
            )
        self._check_state()
        try:
            allowed({name: value for name, value in self.client.items() if name not in _OF_MEMBERS}, "consumer")
        except ValueError as error:
            raise ConfigError(f"client: {error}") from None

    def _check_state(self) -> None:
        if self.behind not in ("stop", "state"):
            raise ConfigError(f'behind is "stop" or "state", not {self.behind!r}')
        if (self.start == "state" or self.behind == "state") != (self.state is not None):
            raise ConfigError(
                'start="state" and behind="state" need the state topic, which is of no use without one of them',
                hint='Changes(…, start="state", state=StateTopic("shop")), with the name of the flow.',
            )
        if self.state is not None and (self.seen is not None or self.transaction_topic):
            raise ConfigError(
                "a consumer that begins with a state takes neither seen nor transaction_topic",
                hint="Rows of a state belong to no transaction, and come again where it is read again.",
            )
