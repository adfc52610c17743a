"""A Spark standalone cluster with a Spark Connect server on it: a master, two workers of one core, a driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from databus.sandbox.process import Command, python_environment
from databus.sandbox.servers.protocol import Context, NotHealthyError, get_json
from databus.sandbox.servers.spark import SparkConnect

WORKERS = (1, 2)
_MEMORY = "768m"


@dataclass(frozen=True)
class SparkCluster(SparkConnect):
    """Four processes: `master`, `worker-1`, `worker-2` and `connect`; executors are children of their worker.

    The option `spark_master` means nothing to it.
    """

    def configuration(self, context: Context) -> dict[str, str]:
        """Return the configuration: an executor on each worker; a lost worker is noticed within seconds."""
        return {"spark.executor.memory": "512m", "spark.executor.cores": "1"} | super().configuration(context)

    def master(self, context: Context) -> str:
        """Address of the cluster's master."""
        return f"spark://{context.host}:{context.ports['master']}"

    def commands(self, context: Context) -> tuple[Command, ...]:
        """The master, its workers, and the Spark Connect server, whose executors the workers start."""
        ports = context.ports
        listen = ("--host", context.host)
        web = ("--webui-port", str(ports["master-ui"]))
        found = [self._daemon(context, "master", "master.Master", *listen, "--port", str(ports["master"]), *web)]
        for number in WORKERS:
            role = f"worker-{number}"
            given = ("--port", str(ports[role]), "--webui-port", str(ports[f"{role}-ui"]), "--cores", "1")
            work = ("--memory", _MEMORY, "--work-dir", str(context.data / role), self.master(context))
            found.append(self._daemon(context, role, "worker.Worker", *listen, *given, *work))
        return (*found, *super().commands(context))

    def check_health(self, context: Context) -> None:
        """The master has all workers, and the Spark Connect server opens a session."""
        alive = [worker["id"] for worker in cluster_state(context.host, context.ports["master-ui"])["workers"]
                 if worker["state"] == "ALIVE"]  # fmt: skip
        if len(alive) != len(WORKERS):
            raise NotHealthyError(f"the master has {len(alive)} workers of {len(WORKERS)}")
        super().check_health(context)

    def _daemon(self, context: Context, role: str, name: str, *arguments: str) -> Command:
        argv = (str(context.installation / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments)
        environment = python_environment() | {
            "SPARK_HOME": str(context.installation),
            "SPARK_LOCAL_IP": context.host,
            "SPARK_DAEMON_MEMORY": "256m",
            "TZ": "UTC",
        }
        unset = ("PYTHONDONTWRITEBYTECODE", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")
        return Command(role, argv, context.folder, context.logs / f"{role}.log", environment, unset=unset)


def cluster_state(host: str, port: int) -> dict[str, Any]:
    """Return a master's state from its web server, in JSON: its workers, with their state and cores in use.

    Raises:
        NotHealthyError: it does not answer.
    """
    found: dict[str, Any] = get_json(host, port, "/json/")
    return found


SPARK_CLUSTER = SparkCluster(
    "spark-cluster",
    {
        "connect": 15012,
        "ui": 14050,
        "master": 17077,
        "master-ui": 14060,
        "worker-1": 17078,
        "worker-1-ui": 14061,
        "worker-2": 17079,
        "worker-2-ui": 14062,
    },
    stops_within_s=30.0,
)
