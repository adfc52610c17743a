-- Reports, quarantine and quality results, apart from Airflow's own tables.
CREATE DATABASE databus;
