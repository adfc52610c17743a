"""Flow of the snapshot model: plans with chunks, deliveries, commits, a sink that falls behind, kills in between."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.snapshot_model.chunks import ChunkReader, Chunks, Snapshot, fitted
from tests.faults.snapshot_model.entries import RANKS, Row
from tests.faults.snapshot_model.rules import Rules
from tests.faults.snapshot_model.server import Server
from tests.faults.snapshot_model.sinks import Documents, Killed, Records, Violation
from tests.faults.snapshot_model.standing import Owed, Plan, Standing, check, rows_of


class Flow:
    """Flow with two sinks, and a person who asks for snapshots, pauses and cancels them.

    Args:
        server: its source.
        rules: of the protocol.
        chance: draws from 0 to 1.
        trace: gets a line for each step; None for none.
    """

    def __init__(self, server: Server, rules: Rules, chance: Callable[[], float], trace: list[str] | None) -> None:
        self.server, self.rules, self.chance, self.trace = server, rules, chance, trace
        self.reader = ChunkReader(server, rules, chance, self.pass_time)
        self.records, self.documents = Records(), Documents(chance)
        self.quiet = False
        self.definition = self.batch = self.snapshots = 0
        self.paused = self.cancelled = self.stays_paused = False
        self.behind: dict[str, Standing] = {}
        self.asked = Snapshot(0)
        self.ask()
        for _ in range(int(chance() * 6)):
            server.tick()
        self.start = server.head  # by file:pos, perhaps not visible yet
        self.flow = Standing(self.start, (self.records.name, self.documents.name))
        self.flow.snapshot = self.asked

    def say(self, text: str, *about: object) -> None:
        """Note a step and what it is about."""
        if self.trace is not None:
            about = " ".join(map(str, about))
            self.trace.append(f"{text} {about}; log {self.server.head}, not visible {self.server.pending}")

    def sink(self, name: str) -> Records | Documents:
        """Return a sink."""
        return self.records if name == self.records.name else self.documents

    def pass_time(self) -> None:
        """Let the server go on."""
        for _ in range(int(self.chance() * 3)):
            self.server.tick()

    def point(self, name: str = "in the sink") -> None:
        """Pass a point at which the process may be killed."""
        if not self.quiet and self.chance() < 0.07:
            if self.chance() < 0.4:
                self.definition += 1
            self.say("killed", name)
            raise Killed
        if self.chance() < 0.4:
            self.pass_time()

    # --- a person ---

    def ask(self) -> None:
        """Ask for a snapshot of the table."""
        self.snapshots += 1
        order = self.server.log[-1].order
        last = max(self.server.engine, key=RANKS[order].__getitem__, default=None)
        self.asked = Snapshot(self.snapshots, order=order, last=last)
        self.paused = self.cancelled = False

    def person(self) -> None:
        """Let a person ask for something."""
        draw, snapshot = self.chance(), self.flow.snapshot
        apart = self.rules.requests == "apart"
        if snapshot.state != "reading":
            if draw < 0.2 and self.snapshots < 2 and self.flow.plan is None:
                self.ask()
                self.flow.snapshot = self.asked
                self.say("asked again")
        elif draw < 0.05:
            self.paused = True
            self.say("paused")
            if not apart:
                self.flow.snapshot = snapshot._replace(state="paused")
        elif draw < 0.065:
            self.cancelled = True
            self.say("cancelled")
            if not apart:
                self.flow.snapshot = snapshot._replace(state="cancelled")

    def resume(self) -> None:
        """Let a paused snapshot go on."""
        self.paused = False
        if self.flow.snapshot.state == "paused":
            self.flow.snapshot = self.flow.snapshot._replace(state="reading")

    # --- a batch ---

    def turn(self) -> None:
        """Move one batch of the flow, or of a sink that is behind; let it join where it may."""
        for name, own in list(self.behind.items()):
            if self.quiet or self.chance() < 0.5:
                self._batch(own)
                self._join(name, own)
        self._batch(self.flow)

    def _batch(self, at: Standing) -> None:
        plan = at.plan
        if plan is not None and plan.definition != self.definition:
            plan = self._closed(at, plan)
        if plan is not None:
            if plan.chunks is not None and self.rules.retry == "read anew":
                again = plan.chunks._replace(rows=self.reader.read_again(plan.start, plan.chunks))
                plan = plan._replace(chunks=fitted(again, self.server.log, plan.start, plan.end, self.rules) or again)
        elif at.plan is None:
            plan = self._planned(at)
            if plan is None:
                return
            if plan.chunks is not None and plan.start == plan.end:
                self.say("planned an empty range with chunks")
            self._keep(at, plan)
        rows = rows_of(plan, self.server, self.rules)
        for name in at.sinks if self.chance() < 0.5 else at.sinks[::-1]:
            self._deliver(at, plan, name, rows)
        self.point("before the commit")
        self._commit(at, plan)

    def _keep(self, at: Standing, plan: Plan) -> None:
        at.plan = plan
        self.say("planned", at.sinks, plan)
        self.point("after the plan")

    def _closed(self, at: Standing, plan: Plan) -> Plan | None:
        """Give up a plan of a former definition unless the records hold it; return the plan to go on with."""
        if self.records.name in at.sinks and self.records.marker == plan.batch:
            self.definition = plan.definition  # a person puts it back
            return plan
        at.until = max(at.until, plan.end)
        self.say("gave up", at.sinks, plan.batch)
        rule, chunks = self.rules.given_up, plan.chunks
        kept = at is not self.flow or bool(self.behind and rule != "always anew")
        if chunks is None or not (kept or rule in ("files", "shorter")):
            at.plan = None
            if chunks is None or at is self.flow:
                return None
        end = plan.end
        if rule == "shorter" and at is self.flow:
            end = plan.start + int(self.chance() * (plan.end - plan.start + 1))
        elif self.rules.order == "chunks first":
            ahead = [each.start for each in at.owed if chunks is None or not each.chunks.names <= chunks.names]
            head = max(end, min([self.server.head if at is self.flow else self.flow.place, *ahead]))
            end += int(self.chance() * (head - end + 1))
        after = plan._replace(batch=self._next(), end=end, definition=self.definition)
        self._keep(at, after)
        return after

    def _next(self) -> int:
        self.batch += 1
        return self.batch

    def _planned(self, at: Standing) -> Plan | None:
        rules, start = self.rules, at.place
        chunks = self._read(at) if at is self.flow else None
        if chunks is not None:
            self.point("after the chunk file")
            head = self.server.head
            if rules.end == "before":
                end = start + int(self.chance() * (chunks.head - start + 1))
            elif rules.end == "views":
                end = max(start, chunks.shown)
            else:
                end = chunks.head + int(self.chance() * (head - chunks.head + 1))
            chunks = fitted(chunks, self.server.log, start, end, rules)
            if chunks is None:
                self.say("threw chunks away")
            if rules.fit == "cut":
                end = start + int(self.chance() * (end - start + 1))
            elif rules.fit == "grown":
                end = head
            if chunks is not None and end == start and (not rules.empty or (rules.skips and not chunks.rows)):
                return None
        else:
            # A sink that is behind may have got further than a flow that gave its plan up.
            head = self.server.head if at is self.flow else max(start, self.flow.place)
            end = start + int(self.chance() * (head - start + 1)) if self.chance() < 0.5 else head
        if at.owed:
            chunks, end = self._owed(at, end)
        if chunks is None and end == start:
            return None
        return Plan(self._next(), start, end, chunks, self.definition)

    def _read(self, at: Standing) -> Chunks | None:
        if self.cancelled and self.rules.requests == "apart" and at.snapshot.state == "reading":
            at.snapshot = at.snapshot._replace(state="cancelled")
        snapshot = at.snapshot
        if snapshot.state != "reading" or (self.behind and self.rules.behind == "waits"):
            return None
        if self.rules.requests == "apart" and self.paused:
            return None
        if not self.quiet and self.chance() < 0.25:  # too far behind, or the wait timed out
            return None
        if self.paused or self.cancelled:
            raise Violation(f"snapshot {snapshot.number} goes on after a person's request")
        chunks = self.reader.read(at.place, snapshot)
        self.say("lost a view" if chunks is None else "read", chunks)
        self.point("after the read")
        return chunks

    def _owed(self, at: Standing, end: int) -> tuple[Chunks | None, int]:
        """Take the owed chunks whose place is reached; end before the place of the next ones."""
        here = [each for each in at.owed if each.start <= at.place]
        ahead = [each for each in at.owed if each.start > at.place]
        end = min([max([end, *(each.end for each in here)]), *(each.start for each in ahead)])
        if not here:
            return None, end
        chunks = here[-1].chunks
        done = tuple(key for each in here for key in each.chunks.done)
        rows = tuple(row for each in here for row in each.chunks.rows)
        counts = [sum(each.chunks[number] for each in here) for number in (1, 2)]
        names = frozenset(name for each in here for name in each.chunks.names)
        return chunks._replace(rows=rows, read=counts[0], superseded=counts[1], done=done, names=names), end

    # --- sinks ---

    def _deliver(self, at: Standing, plan: Plan, name: str, rows: list[Row]) -> None:
        if at is self.flow and len(at.sinks) > 1 and not self.quiet and self.chance() < 0.06:
            self._detach(name)
            return
        if name == self.records.name:
            self.records.write(plan.batch, rows, self.point)
        else:
            self.documents.write(rows, max(plan.end, at.until), self.point)
        self.point("after the sink")

    def _commit(self, at: Standing, plan: Plan) -> None:
        if plan.start != at.place:
            raise Violation(f"batch {plan.batch} begins at {plan.start}, the checkpoint is {at.place}")
        at.place, at.plan = plan.end, None
        self.say("committed", at.sinks, plan.batch)
        if plan.chunks is not None:
            at.owed = tuple(each for each in at.owed if not each.chunks.names <= plan.chunks.names)
            if at is self.flow:
                for own in self.behind.values():
                    if self.rules.behind == "owed" and not self._has(own, plan):
                        own.owed += (Owed(plan.start, plan.end, plan.chunks),)
            at.done |= frozenset(plan.chunks.done)
            at.delivered |= plan.chunks.names
            if self.rules.cursor == "apart":
                self.point("between checkpoint and cursor")
            at.snapshot = plan.chunks.snapshot
        for name in at.sinks:
            check(self.sink(name), at, self.server)

    # --- a sink that is behind ---

    def _detach(self, name: str) -> None:
        flow, own = self.flow, Standing(self.flow.place, (name,))
        own.snapshot, own.plan, own.until = flow.snapshot, flow.plan, flow.until
        own.done, own.delivered = flow.done, flow.delivered
        flow.sinks = tuple(other for other in flow.sinks if other != name)
        self.behind[name] = own
        self.say("fell behind", name)

    def _has(self, own: Standing, plan: Plan) -> bool:
        """Tell whether a sink took the plan's chunks along as it fell behind."""
        planned = own.plan.chunks.names if own.plan is not None and own.plan.chunks is not None else frozenset()
        return own.delivered | planned >= plan.chunks.names

    def _join(self, name: str, own: Standing) -> None:
        flow = self.flow
        if own.place != flow.place or own.plan is not None or flow.plan is not None:
            return
        if own.owed and self.rules.join == "all":
            return
        if own.delivered != flow.delivered:
            raise Violation(f"{name} joins without chunks {set(flow.delivered ^ own.delivered)}")
        flow.sinks = tuple(sorted((*flow.sinks, name), reverse=True))
        flow.until = max(flow.until, own.until)
        del self.behind[name]
        self.say("joined", name)
        check(self.sink(name), flow, self.server)
