"""Reports of tasks to Airflow and through it: alerts, lineage, metrics."""
