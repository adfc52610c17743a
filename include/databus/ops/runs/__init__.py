"""Use cases of runs: run, submit, dry run, preview, audit, history, lineage."""
