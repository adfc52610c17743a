"""Use cases shared by the CLI, Airflow's tasks and the spark-submit job; no framework of the caller."""
