"""`databus bench`: benchmarks of the path, of mirrors, and of Airflow."""
