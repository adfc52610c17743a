"""Outages of sinks: lagging sinks leave the flow, catch up, and join it again (ADR 16)."""
