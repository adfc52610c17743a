"""Charts of flows as code: Grafana dashboards and Prometheus rules over what `databus watch` shows."""
