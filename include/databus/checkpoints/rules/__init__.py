"""Rules of checkpoints as pure functions: plans, amendments, lagging sinks, adoption, reconciliation."""
