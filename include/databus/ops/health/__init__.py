"""Use cases of health: watch, alerts, status, lag, doctor, preflight, security."""
