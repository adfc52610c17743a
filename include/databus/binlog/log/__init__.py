"""Events of the log: types, framing, compression, table maps, and the walk over them."""
