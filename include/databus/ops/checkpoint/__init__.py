"""Checkpoint use cases: show, preview, amend, adopt, accept, skip a lagging sink."""
