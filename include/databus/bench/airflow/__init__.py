"""Benchmarks of flows under a real Airflow: freshness, idle cost, DAG files, metadata."""
