"""Alerts of a flow: messages, states, and the flow status that rules judge."""
