"""What tasks report to Airflow and through it: alerts, lineage, metrics."""
