"""Serializers and deserializers for values that carry the id of a schema in a registry.

They are what `value_serializer` of a producer and `value_deserializer` of a consumer take, and read
and write what Confluent's do: a zero byte, four of the schema's id, and what the schema describes.

Source: Confluent's documentation of its serializers, "Wire format".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
