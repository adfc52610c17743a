"""spark-submit hook that can drain: in a process session of its own, only its driver gets the signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any, Self

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

_NOT_INHERITED = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE")
"""A task that used Connect before leaves these behind; a driver is a classic session."""


class DrainingSubmitHook(SparkSubmitHook):
    """The provider's hook, with the environment given to the process and a way to drain the driver.

    Airflow ends a task by a signal to its whole process group: it would take the JVM away from under the driver that
    is to finish its batch. So spark-submit gets a session of its own.
    """

    environment: Mapping[str, str]

    @classmethod
    def of(cls, hook: SparkSubmitHook, environment: Mapping[str, str]) -> Self:
        """Take over a hook as the operator configured it.

        Args:
            hook: the operator's hook, without environment variables of its own.
            environment: added to this process's environment for spark-submit; may hold secrets.
        """
        taken = cls.__new__(cls)
        taken.__dict__.update(hook.__dict__)
        taken.environment = environment
        return taken

    @property
    def exit_code(self) -> int | None:
        """Exit code of spark-submit, which is the driver's in client mode; None while it runs."""
        return None if self._submit_sp is None else self._submit_sp.poll()

    def submit(self, application: str = "", **options: Any) -> str | None:
        """Run spark-submit until it ends."""
        inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        options = {"env": {**inherited, **self.environment}, "start_new_session": True, **options}
        try:
            driver: str | None = super().submit(application, **options)
        finally:
            if self._submit_sp is not None and self._submit_sp.stdout is not None:
                self._submit_sp.stdout.close()
        return driver

    def drain(self) -> bool:
        """Send SIGTERM to the Python driver on this machine; False when there is none."""
        import psutil

        if self.exit_code is not None or self._submit_sp is None:
            return False
        try:
            java = psutil.Process(self._submit_sp.pid)
            drivers = [child for child in java.children(recursive=True) if "--window-seconds" in child.cmdline()]
        except psutil.Error:
            return False
        for driver in drivers[:1]:
            driver.send_signal(signal.SIGTERM)
        return bool(drivers)
