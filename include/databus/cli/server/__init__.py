"""The command on a server: verbs that ask the API in Airflow instead of opening a flow's servers from here."""
