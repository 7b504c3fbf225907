"""Columns of values that carry the id of a schema, as Confluent's serializers write them.

A value is a zero byte, four of the schema's id in a registry, and what the schema describes.

Source: Confluent's documentation of its serializers, "Wire format".
"""

from dafka.serializers.registry import SchemaRegistry as SchemaRegistry
from dafka.spark.confluent.columns import from_confluent_avro as from_confluent_avro
from dafka.spark.confluent.columns import from_confluent_json as from_confluent_json
from dafka.spark.confluent.columns import to_confluent_avro as to_confluent_avro
from dafka.spark.confluent.columns import to_confluent_json as to_confluent_json
