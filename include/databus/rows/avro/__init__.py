"""Row images and keys as Avro: columns are written from Arrow, with the schemas that describe them.

`types` says what a column is in Avro and under which name, `schemas` makes the schemas of a table, `kernels` and
`columns` write values, `images` and `keys` put them together for a decoded batch. Nothing here asks a registry.
"""
