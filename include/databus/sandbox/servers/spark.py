"""A Spark Connect server, from the pyspark of this interpreter."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from databus.core.errors.config import SandboxError
from databus.sandbox import packages
from databus.sandbox.process import Command, python_environment
from databus.sandbox.servers.protocol import Context, NotHealthyError, ServerDefaults


def pyspark_home() -> Path:
    """The folder of the installed pyspark, which is a Spark home; does not import it.

    Raises:
        SandboxError: pyspark, or its jars, are not installed.
    """
    found = importlib.util.find_spec("pyspark")
    home = Path(found.origin).parent if found is not None and found.origin is not None else None
    if home is None or not (home / "jars").is_dir():
        raise SandboxError(
            "pyspark with its jars is not installed in this Python environment",
            hint="Install it: pip install 'databus[spark]'",
            code="sandbox_program_missing",
        )
    return home


@dataclass(frozen=True)
class SparkConnect(ServerDefaults):
    """Spark Connect driver that executes in threads of its own (`local[2]`), by default; any master by option."""

    def install(self, context: Context) -> Path:
        """The installed pyspark, checked against the version that the images use."""
        home, wanted = pyspark_home(), context.versions["SPARK_VERSION"]
        packages.require_java()
        if (installed := metadata.version("pyspark")) != wanted:
            raise SandboxError(
                f"pyspark {installed} is installed, {wanted} is wanted",
                hint=f"Install it: pip install pyspark=={wanted} pyspark-client=={wanted}",
            )
        return home

    def prepare(self, context: Context) -> None:
        """Make the folders of tables and of spilled blocks."""
        for name in ("warehouse", "local"):
            (context.data / name).mkdir(parents=True, exist_ok=True)

    def configuration(self, context: Context) -> dict[str, str]:
        """Spark settings (Spark 4.1 documentation, "Spark Configuration"); the user's win."""
        return {
            "spark.connect.grpc.binding.address": context.host,
            "spark.connect.grpc.binding.port": str(context.ports["connect"]),
            "spark.driver.host": context.host,
            "spark.driver.bindAddress": context.host,
            "spark.ui.port": str(context.ports["ui"]),
            "spark.local.dir": str(context.data / "local"),
            "spark.sql.warehouse.dir": str(context.data / "warehouse"),
            # Timestamps mean the same on every machine; two attempts of one task would write twice.
            "spark.sql.session.timeZone": "UTC",
            "spark.speculation": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
            "spark.python.worker.reuse": "true",
            "spark.python.daemon.module": "databus.runtime.spark.worker_daemon",
            "spark.ui.showConsoleProgress": "false",
        } | context.options.spark_conf

    def master(self, context: Context) -> str:
        """Spark master: where its tasks run."""
        return context.options.spark_master

    def commands(self, context: Context) -> tuple[Command, ...]:
        """Return the command of its one process; its Python workers are children."""
        argv = [str(context.installation / "bin" / "spark-submit")]
        argv += ["--master", self.master(context), "--driver-memory", context.options.spark_driver_memory]
        argv += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for key, value in self.configuration(context).items():
            argv += ["--conf", f"{key}={value}"]
        environment = python_environment() | {
            "SPARK_HOME": str(context.installation),
            "SPARK_LOCAL_IP": context.host,
            "TZ": "UTC",
        }
        command = Command(
            "connect",
            (*argv, "spark-internal"),
            context.folder,
            context.logs / "connect.log",
            environment,
            unset=("PYTHONDONTWRITEBYTECODE", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"),
        )
        return (command,)

    def check_health(self, context: Context) -> None:
        """A gRPC channel becomes ready, and the server opens a session and names its version."""
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        grpc = importlib.import_module("grpc")  # ships no types
        from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

        request = base_pb2.AnalyzePlanRequest(session_id="00000000-0000-4000-8000-00000000da7a")
        request.user_context.user_id = "databus-sandbox"
        request.spark_version.SetInParent()
        with grpc.insecure_channel(self.address(context.ports, context.host)) as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=3.0)
                answer = base_pb2_grpc.SparkConnectServiceStub(channel).AnalyzePlan(request, timeout=30.0)
            except grpc.FutureTimeoutError:
                raise NotHealthyError("the gRPC channel does not become ready") from None
            except grpc.RpcError as error:
                raise NotHealthyError(str(error.code())) from None
        if answer.spark_version.version != context.versions["SPARK_VERSION"]:
            raise NotHealthyError(f"the server says it is Spark {answer.spark_version.version}")


SPARK = SparkConnect("spark", {"connect": 15002, "ui": 14040}, stops_within_s=30.0)
