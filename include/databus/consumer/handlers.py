"""Handlers of changes: functions that are called for tables, for transactions, and for errors."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from databus.consumer.change import Change, Transaction
from databus.core.errors.config import ConfigError

if TYPE_CHECKING:
    from databus.consumer.changes import Changes

log = logging.getLogger(__name__)

Decision = Literal["skip", "retry", "stop", "rollback"]
Handler = Callable[[Change], object]
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., object])

_LONGEST_WAIT_S = 30.0


class Handlers:
    """Functions that are called for changes, in the order in which they were registered.

    `@handlers.on("shop.orders")` takes the changes of a table, `@handlers.begin` and `@handlers.end` a `Transaction`
    before and after its changes, `@handlers.error` decides on an error: it gets the error and the change (or the
    transaction, of an error in its begin or end) and returns "retry" (the same again, after a growing wait), "skip" (go
    on behind it, with a warning; counted in `skipped`), "rollback" (back to the checkpoint) or "stop" (raise it: so it
    is without such a function). With `begin` or `end` the consumer needs a `transaction_topic`.

    Args:
        wait_s: seconds before the first retry; each further one waits twice as long, 30 s at most. Default 0.5.
    """

    def __init__(self, wait_s: float = 0.5):
        self._wait_s = wait_s
        self._on: list[tuple[re.Pattern[str], frozenset[str], Handler]] = []
        self._begin: list[Callable[[Transaction], object]] = []
        self._end: list[Callable[[Transaction], object]] = []
        self._error: Callable[[Exception, Any], Decision] | None = None
        self.handled = self.skipped = 0

    def on(self, *tables: str, ops: Iterable[str] = ()) -> Callable[[AnyFunction], AnyFunction]:
        """Register a function of the changes of tables.

        Args:
            tables: "database.table" or patterns with `*`; none for all.
            ops: operations, e.g. "cu"; none for all.
        """
        pattern = re.compile("|".join(map(translate, tables or ("*",))))
        wanted = frozenset(ops)

        def register(function: AnyFunction) -> AnyFunction:
            self._on.append((pattern, wanted, function))
            return function

        return register

    def begin(self, function: AnyFunction) -> AnyFunction:
        """Register a function of a transaction, called before its changes."""
        self._begin.append(function)
        return function

    def end(self, function: AnyFunction) -> AnyFunction:
        """Register a function of a transaction, called after its changes."""
        self._end.append(function)
        return function

    def error(self, function: AnyFunction) -> AnyFunction:
        """Register the function that decides on an error.

        Raises:
            ConfigError: there is one.
        """
        if self._error is not None:
            raise ConfigError("handlers have one function of errors")
        self._error = function  # type: ignore[assignment]  # checked when it is called
        return function

    def run(self, changes: Changes) -> None:
        """Call the functions for what a consumer reads.

        Raises:
            Exception: what a function raised, where it is decided to stop.
        """
        if not self._begin and not self._end:
            for change in changes:
                self._decided(changes, change, partial(self._changed, change))
            return
        for transaction in changes.transactions():
            self._transacted(changes, transaction)

    def _transacted(self, changes: Changes, transaction: Transaction) -> None:
        """Call the functions for a transaction; a rollback leaves the rest of it out: it comes again."""
        steps: Iterable[tuple[Any, Callable[[], None]]] = chain(
            [(transaction, partial(self._each, self._begin, transaction))],
            ((change, partial(self._changed, change)) for change in transaction),
            [(transaction, partial(self._each, self._end, transaction))],
        )
        for subject, call in steps:
            if self._decided(changes, subject, call) == "rollback":
                return

    @staticmethod
    def _each(functions: Iterable[Callable[[Transaction], object]], transaction: Transaction) -> None:
        for function in functions:
            function(transaction)

    def _changed(self, change: Change) -> None:
        for pattern, ops, function in self._on:
            if (not ops or change.op in ops) and pattern.match(change.table):
                function(change)
        self.handled += 1

    def _decided(self, changes: Changes, subject: Any, call: Callable[[], None]) -> Decision | None:
        wait_s = self._wait_s
        while True:
            try:
                call()
            except Exception as error:
                decision = "stop" if self._error is None else self._error(error, subject)
                if decision == "retry":
                    log.warning("%r is tried again in %.1f s: %s", subject, wait_s, error)
                    time.sleep(wait_s)
                    wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                    continue
                if decision == "skip":
                    self.skipped += 1
                    log.warning("%r is skipped: %s", subject, error, exc_info=error)
                elif decision == "rollback":
                    log.warning("back to the checkpoint, at %r: %s", subject, error)
                    time.sleep(wait_s)
                    changes.rewind()
                else:
                    raise
                return decision
            return None
