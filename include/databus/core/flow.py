"""A flow: one source, transforms, checks and sinks, as a frozen object that a DAG file builds in about 15 lines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from databus.core.alerts.alert import AlertSpec, ChannelSpec
from databus.core.batching import Batching
from databus.core.expectations import Expectation, expectations_of
from databus.core.flow_specs import CheckSpec, SinkSpec, SourceSpec, TransformSpec
from databus.core.spec import Spec
from databus.core.stored_form import canonical_json
from databus.core.stored_options import HOUR, SECOND, ZERO, Duration, StoredOption

_WITHOUT_EFFECT_ON_OUTPUT = frozenset(
    {
        "batching",
        "sink_outage_seconds",
        "zookeeper",
        "on_zookeeper_loss",
        "zookeeper_loss_seconds",
        "zookeeper_loss_batches",
        "description",
        "alerts",
        "mode",
    }
)
"""Fields that say how a flow is run, not what comes out."""

_NEVER_HASHED = frozenset({"on_reject", "on_key_change"})
"""Options of sinks that no databus ever put into a hash."""

PLAN_CODE = "0.1.0"
"""Version of databus since which rows of a planned range go where they go, in their order: part of each plan's hash.

A plan in flight is finished by any later version of the same PLAN_CODE. So it is raised only with a change after which
that would lose or repeat rows, and not with a release (ADR 58).
"""

FLOW_NAME = re.compile(r"^[a-z][a-z0-9_]{0,99}$")
"""Pattern of a flow's name."""


Mode = Literal["live", "standard", "economy"]
"""Mode of a flow: how fresh it is kept, and what it holds for that while it is idle (see `Flow.mode`)."""


class Flow(Spec):
    """Flow of rows from one source through transforms and checks to sinks.

    For example `Flow(name="orders", source=MysqlBinlog(…), sinks=(Kafka(…),), sink_outage=timedelta(minutes=1))`.

    Attributes:
        name: lower-case identifier, e.g. "orders_to_kafka"; names the DAG, the znodes and the markers.
        source: where rows come from, e.g. `MysqlBinlog(conn_id="mysql_shop", tables=("shop.orders",))`.
        transforms: applied in order, e.g. (DropColumns("card_number"),); default none.
        checks: applied after the transforms, e.g. (NotNull("customer_id"),); default none.
        expectations: of Great Expectations, on the rows as the transforms leave them: expectations, suites, suite
            files, or `Expectations` around them; one result per run. E.g. "suites/orders.json"; default none.
        sinks: where rows go; each takes the routes it names. E.g. (Kafka(conn_id="kafka_east"),).
        batching: bounds of a micro-batch, e.g. `Batching(max_rows=50_000)`; default `Batching()`.
        sink_outage: time that one of several sinks may be unavailable or turn rows away before the others go on without
            it; it catches up by itself from a checkpoint of its own. E.g. timedelta(minutes=2); default 30 seconds.
        zookeeper_conn_id: connection of the checkpoint store, e.g. "zookeeper_east"; default "zookeeper_default".
        on_zookeeper_loss: "stop" (default) finishes the batch in hand, waits at its commit and fails when that takes
            long; "continue" goes on without ZooKeeper, held together by the sinks' markers, and brings it up to date
            when it is back. Needs a sink with markers (Kafka).
        zookeeper_loss: longest time to run without ZooKeeper, with "continue", e.g. timedelta(minutes=30); default one
            hour.
        zookeeper_loss_batches: most batches to run without ZooKeeper, e.g. 1_000; default 10,000.
        lane: "auto" (default) encodes rows where they are read if nothing of the flow needs them in Spark (transforms
            that compile, no row check of severity fail, sinks that can); "spark" always goes through Spark's
            DataFrames. `databus plan` says which lane each table asks for, and why.
        mode: default "standard". "live" keeps a Spark task at hand, and the next run's as well while it waits, so that
            a change is readable within a fraction of a second; "standard" starts a Spark job per batch; "economy" also
            ends its runs as soon as nothing is new, so that a quiet flow holds nothing, and is as fresh as its
            schedule.
        description: one line for lists and the UI, e.g. "orders to the west"; default "".
        alerts: channels (`Email`, `Webhook`, `Notifier`) and at most one `AlertWhen` with thresholds, e.g.
            (AlertWhen(lag=timedelta(minutes=1)), Email(to="ops@example.com")); default none.
    """

    kind: ClassVar[str] = "flow"

    name: str
    source: SerializeAsAny[SourceSpec]
    transforms: tuple[SerializeAsAny[TransformSpec], ...] = ()
    checks: tuple[SerializeAsAny[CheckSpec], ...] = ()
    expectations: tuple[Expectation, ...] = ()
    sinks: tuple[SerializeAsAny[SinkSpec], ...] = Field(min_length=1)
    batching: Batching = Batching()
    sink_outage: Duration = Field(timedelta(seconds=30), ge=ZERO)
    zookeeper_conn_id: str = "zookeeper_default"
    on_zookeeper_loss: Literal["stop", "continue"] = "stop"
    zookeeper_loss: Duration = Field(HOUR, gt=ZERO)
    zookeeper_loss_batches: int = Field(10_000, gt=0)
    lane: Literal["auto", "spark"] = "auto"
    mode: Mode = "standard"
    description: str = ""
    alerts: tuple[SerializeAsAny[AlertSpec], ...] = ()

    sink_outage_seconds: ClassVar = StoredOption[float]("sink_outage", SECOND)
    zookeeper: ClassVar = StoredOption[str]("zookeeper_conn_id")
    zookeeper_loss_seconds: ClassVar = StoredOption[float]("zookeeper_loss", SECOND)

    @field_validator("name")
    @classmethod
    def _name_is_identifier(cls, value: str) -> str:
        if not FLOW_NAME.fullmatch(value):
            raise ValueError("a flow's name is lower-case letters, digits and _, at most 100, starting with a letter")
        return value

    @field_validator("expectations", mode="before")
    @classmethod
    def _are_taken_apart(cls, value: Any) -> tuple[Expectation, ...]:
        return expectations_of(value)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Flow:
        for what, names in (
            ("sink", [s.sink_name for s in self.sinks]),
            ("check", [c.check_name for c in self.checks]),
            ("alert channel", [a.channel_name for a in self.alerts if isinstance(a, ChannelSpec)]),
            ("expectation", [e.name for e in self.expectations]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"{what} names must be unique, repeated: {', '.join(twice)}; give each a name=")
        if sum(a.kind == "when" for a in self.alerts) > 1:
            raise ValueError("alerts may hold one AlertWhen")
        return self

    @model_validator(mode="after")
    def _transactions_are_the_sources(self) -> Flow:
        copying = next((each.label() for each in self.transforms if each.most_copies > 1), "")
        for sink in self.sinks:
            if not (option := sink.needs_transactions()):
                continue
            if not self.source.transactional:
                raise ValueError(
                    f"sink {sink.sink_name}: {option} tells where transactions begin and end, and source "
                    f"{self.source.kind} has none"
                )
            if copying:
                raise ValueError(
                    f"sink {sink.sink_name}: {option} counts the rows of transactions, and {copying} makes several of "
                    "one: leave one of the two out, or give them flows of their own"
                )
        return self

    @model_validator(mode="after")
    def _boundaries_have_a_topic_each(self) -> Flow:
        for sink in self.sinks:
            if not (option := sink.needs_transactions()):
                continue
            own = getattr(sink, option).replace("{flow}", self.name)
            for other in self.sinks:
                names = [name.replace("{flow}", self.name) for name in other.datasets()]
                if other is sink or own not in names or other.conn_ids()[:1] != sink.conn_ids()[:1]:
                    continue
                twice = f"sinks {sink.sink_name} and {other.sink_name} would both write the boundaries of transactions"
                mixed = f"rows of sink {other.sink_name} and the boundaries of transactions of sink {sink.sink_name}"
                both = other.needs_transactions() and own == names[-1]
                raise ValueError(f"{twice} to {own!r}" if both else f"{mixed} would share {own!r}")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON from which the registry rebuilds an equal flow."""
        return {
            "name": self.name,
            "source": self.source.to_json(),
            "transforms": [t.to_json() for t in self.transforms],
            "checks": [c.to_json() for c in self.checks],
            **({"expectations": [e.to_json() for e in self.expectations]} if self.expectations else {}),
            "sinks": [s.to_json() for s in self.sinks],
            "batching": self.batching.stored(),
            "sink_outage_seconds": self.sink_outage_seconds,
            "zookeeper": self.zookeeper_conn_id,
            "on_zookeeper_loss": self.on_zookeeper_loss,
            "zookeeper_loss_seconds": self.zookeeper_loss_seconds,
            "zookeeper_loss_batches": self.zookeeper_loss_batches,
            "lane": self.lane,
            "mode": self.mode,
            "description": self.description,
            "alerts": [a.to_json() for a in self.alerts],
        }

    def shown(self) -> dict[str, Any]:
        """Return what the records keep of the flow: its JSON without alert channels. Connections are there by id."""
        return {name: value for name, value in self.to_json().items() if name != "alerts"}

    def spec_hash(self, code: str) -> str:
        """Return 16 hex digits that change with anything that decides the output of a batch, `PLAN_CODE` with it."""
        source, sinks = self.source.deciding(), tuple(sink.deciding() for sink in self.sinks)
        return _hash(self.model_copy(update={"source": source, "sinks": sinks}), code)

    def takes_up(self, spec_hash: str, code: str) -> bool:
        """Return whether a plan that was made under a definition with this hash may be finished under this one."""
        return spec_hash in self.hashes_alike(code)

    def hashes_alike(self, code: str) -> Iterator[str]:
        """Yield the hashes of this definition and of all whose plans it may finish.

        Hashes of plans that an earlier databus left hold all settings of source and sinks: these are known as long as
        nothing was changed but what `SourceSpec.alike` names.
        """
        yield self.spec_hash(code)
        for source in (self.source, *self.source.alike()):
            yield _hash(self.model_copy(update={"source": source}), code)


def _hash(flow: Flow, code: str) -> str:
    """Return the hash of a definition with all settings of its source and sinks."""
    spec = {k: v for k, v in flow.to_json().items() if k not in _WITHOUT_EFFECT_ON_OUTPUT}
    spec["sinks"] = [{k: v for k, v in s.to_json().items() if k not in _NEVER_HASHED} for s in flow.sinks]
    return hashlib.sha256(canonical_json({"spec": spec, "code": code})).hexdigest()[:16]
