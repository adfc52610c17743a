"""Use cases of the ledger: show, verify, gaps."""
