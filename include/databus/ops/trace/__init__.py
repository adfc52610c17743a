"""Use case of a trace: one change followed from source to sinks and back."""
