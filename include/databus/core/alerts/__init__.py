"""Alerts of a flow: what is told, what was told, and the status that they judge."""
