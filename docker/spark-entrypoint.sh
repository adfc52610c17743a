#!/bin/bash
# Starts one process of a Spark standalone cluster in the foreground: spark-entrypoint master|worker|connect [options].
# The pip package of Spark has no sbin/ folder; these are the classes that its scripts start.
set -euo pipefail

role=${1:-}
[ $# -gt 0 ] && shift
host=${SPARK_HOST:-$(hostname)}
master=${SPARK_MASTER_URL:-spark://spark-master:7077}

case "$role" in
  master)
    exec spark-class org.apache.spark.deploy.master.Master \
      --host "$host" --port "${SPARK_MASTER_PORT:-7077}" --webui-port "${SPARK_MASTER_WEBUI_PORT:-8080}" "$@"
    ;;
  worker)
    exec spark-class org.apache.spark.deploy.worker.Worker \
      --host "$host" --webui-port "${SPARK_WORKER_WEBUI_PORT:-8081}" "$@" "$master"
    ;;
  connect)
    exec spark-submit --master "$master" --name databus-connect \
      --class org.apache.spark.sql.connect.service.SparkConnectServer \
      --conf spark.driver.host="$host" \
      --conf spark.connect.grpc.binding.port="${SPARK_CONNECT_PORT:-15002}" \
      --conf spark.python.daemon.module=databus.runtime.spark.worker_daemon \
      --conf spark.executorEnv.PYSPARK_PYTHON="$PYSPARK_PYTHON" \
      "$@" spark-internal
    ;;
  *)
    echo "usage: spark-entrypoint master|worker|connect [options]" >&2
    exit 64
    ;;
esac
