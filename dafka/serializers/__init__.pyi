from .avro import AvroDeserializer as AvroDeserializer
from .avro import AvroSerializer as AvroSerializer
from .json_schema import JsonSchemaDeserializer as JsonSchemaDeserializer
from .json_schema import JsonSchemaSerializer as JsonSchemaSerializer
from .protobuf import ProtobufDeserializer as ProtobufDeserializer
from .protobuf import ProtobufSerializer as ProtobufSerializer
from .registry import SchemaRegistry as SchemaRegistry
