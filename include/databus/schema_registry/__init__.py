"""Values that a schema registry describes: Avro, JSON Schema and Protobuf in Confluent's wire format.

`settings` says how to reach the registry, `client` asks it, `avro`, `json_schema` and `protobuf` turn a schema into a
decoder, `decoder` puts them together for a column of records. Nothing here knows Kafka or rows.
"""
