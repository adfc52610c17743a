"""Tables of a flow while it runs: keys that change, hidden columns, missing tables, column lineage."""
