"""Decoding of rows events: batches of row changes as Arrow, of a segment, a file or a server's log."""
