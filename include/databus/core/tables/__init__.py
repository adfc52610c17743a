"""Tables of a source: schemas, keys, columns that a flow wants, hides or derives."""
