"""Row images and keys as Avro: columns are written from Arrow, with the schemas that describe them.

`types` says what a column is in Avro and under which name, `schemas` makes the schemas of a table, `images` and `form`
write a decoded batch by way of `rows.wire`. Nothing here asks a registry.
"""
