"""State of a flow: checkpoint, plan, ledger, markers, amendments, and the store that keeps it."""
