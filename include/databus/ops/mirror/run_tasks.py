"""Mirror run tasks beside moving records: topics followed, consumer groups carried over, heartbeats."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from databus.core.batches.report import BatchReport
from databus.core.errors.root import DatabusError
from databus.core.errors.sink import SinkSettingError
from databus.core.flow import Flow
from databus.ops.mirror.consumer_groups import GroupSync
from databus.ops.mirror.heartbeats import beating
from databus.ops.mirror.throttle import Throttle
from databus.ops.mirror.translate import mirror_sink
from databus.runtime.context import Services
from databus.runtime.window_limits import WindowControl
from databus.sinks.kafka_mirror.spec import MirrorTopics

log = logging.getLogger(__name__)

KEPT = 24
"""Clients for consumer groups that a window keeps open on each side; those of further groups are opened each time.

Each has a thread for every broker.
"""


@dataclass
class Duty:
    """Periodic task of a mirror run.

    Attributes:
        what: in words, for the log.
        act: does it, and returns a line for the log, "" for nothing to say.
        every_s: seconds from one time to the next.
        first: whether it is done when the window begins; what is set wrong is refused then.
        last: whether it is done when the window is over.
    """

    what: str
    act: Callable[[], str]
    every_s: float
    first: bool = False
    last: bool = False
    _done: float = 0.0

    def when_due(self, flow: str) -> None:
        """Do it if it is time."""
        if time.monotonic() - self._done >= self.every_s:
            self.do(flow)

    def do(self, flow: str, refused: type[DatabusError] | tuple[()] = ()) -> None:
        """Do it now. What fails is logged and fails no batch: the next time tries again.

        Raises:
            DatabusError: of the kind that is to be `refused`.
        """
        try:
            said = self.act()
        except refused:
            raise
        except DatabusError as error:
            log.warning("mirror %s: %s: not done: %s", flow, self.what, error)
        else:
            if said:
                log.info("mirror %s: %s: %s", flow, self.what, said)
        self._done = time.monotonic()


@contextmanager
def with_duties(
    flow: Flow, services: Services, control: WindowControl
) -> Iterator[tuple[WindowControl, Callable[[], None]]]:
    """Give a control that does a mirror's duties after batches, and what to call at the window's end.

    Raises:
        SinkSettingError: names clash, or a topic of the target has fewer partitions and may not grow.
    """
    if not any(sink.kind == "kafka_mirror" for sink in flow.sinks):
        yield control, lambda: None
        return
    sync = GroupSync(flow, services, KEPT)
    duties = _duties(flow, services, sync)
    for duty in duties:
        if duty.first:
            duty.do(flow.name, SinkSettingError)

    bounded = throttled(flow, control)

    def on_batch(report: BatchReport) -> None:
        bounded.on_batch(report)
        for duty in duties:
            duty.when_due(flow.name)

    def at_the_end() -> None:
        for duty in duties:
            if duty.last:
                duty.do(flow.name)

    with closing(sync), beating(flow, services):
        yield replace(control, on_batch=on_batch), at_the_end


def throttled(flow: Flow, control: WindowControl) -> WindowControl:
    """Give a control that keeps a mirror's bound on bytes per second; the same one for a flow without."""
    bounds = [sink.max_bytes_per_s for sink in flow.sinks if isinstance(sink, MirrorTopics)]
    if not any(bounds):
        return control
    throttle = Throttle(bounds[0], control.drain)

    def on_batch(report: BatchReport) -> None:
        control.on_batch(report)
        throttle.after(report)

    return replace(control, on_batch=on_batch)


def _duties(flow: Flow, services: Services, sync: GroupSync) -> Sequence[Duty]:
    spec = mirror_sink(flow)

    def follow() -> str:
        with closing(spec.follow(services.connections)) as following:
            return "; ".join(str(change) for change in following.follow())

    duties = [Duty("follow the source's topics", follow, 30.0, first=True)]
    if spec.groups:

        def carry() -> str:
            return f"{len(sync.carry())} places carried over"

        def carry_all() -> str:
            sync.look_again()  # until the next window nobody looks
            return carry()

        duties.append(Duty("consumer groups", carry, 5.0))
        duties.append(Duty("consumer groups", carry_all, math.inf, last=True))
    return duties
