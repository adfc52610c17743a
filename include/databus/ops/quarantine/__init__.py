"""Use cases of the quarantine: show and replay."""
