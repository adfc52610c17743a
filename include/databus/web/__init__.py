"""Routes for Airflow's plugin: JSON of what is recorded, and the built pages. Knows FastAPI, not Airflow."""
