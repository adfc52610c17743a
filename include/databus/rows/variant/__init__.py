"""VARIANT: row images in the binary encoding of Spark and Parquet."""
