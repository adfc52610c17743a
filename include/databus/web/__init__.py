"""Routes for Airflow's plugin: JSON of the records, and the built pages. Knows FastAPI, not Airflow."""
