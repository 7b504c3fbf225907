"""One cluster's schema registry: Confluent's REST interface over the topic `_schemas`.

From the bottom: `entries` are the records of the topic, `state` is what they add up to, in whatever
order they come. `avro_schema`, `json_schema` and `protobuf_schema` know the languages, `registry`
decides, all without IO, but that the compiler of Protobuf has files (`protobuf_compiler`).
`schema_log` reads and writes the topic, `service` joins the two, `application` speaks HTTP.
"""
