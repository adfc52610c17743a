"""Questions to Airflow about runs of a DAG: earlier ones, those that have ended, those that wait."""
