"""Connection sources without Airflow: environment variables and files, in Airflow's own formats."""
