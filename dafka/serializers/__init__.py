"""Serializers and deserializers for values that carry the id of a schema in a registry.

They are what `value_serializer` of a producer and `value_deserializer` of a consumer take, and read
and write what Confluent's do: a zero byte, four of the schema's id, and what the schema describes.

Source: Confluent's documentation of its serializers, "Wire format".
"""

from typing import Any

import lazy_loader

from topology.extras import told_of_extras

_found, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    with told_of_extras():
        return _found(name)
