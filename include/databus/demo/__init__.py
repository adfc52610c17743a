"""The demonstration: a shop on real servers, flows run by Airflow, and a table that proves what arrived."""
