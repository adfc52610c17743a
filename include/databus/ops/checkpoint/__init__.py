"""Use cases of checkpoints: show, preview, amend, adopt, accept, give a sink up."""
