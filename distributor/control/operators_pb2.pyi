from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WaitRequest(_message.Message):
    __slots__ = ("timeout_ms",)
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    timeout_ms: int
    def __init__(self, timeout_ms: _Optional[int] = ...) -> None: ...

class WaitAnswer(_message.Message):
    __slots__ = ("left", "flows", "partitions")
    LEFT_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    left: _containers.RepeatedCompositeFieldContainer[LeftFlow]
    flows: int
    partitions: int
    def __init__(self, left: _Optional[_Iterable[_Union[LeftFlow, _Mapping]]] = ..., flows: _Optional[int] = ..., partitions: _Optional[int] = ...) -> None: ...

class LeftFlow(_message.Message):
    __slots__ = ("flow", "target", "level", "share", "lacks", "why")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    flow: int
    target: str
    level: int
    share: str
    lacks: int
    why: str
    def __init__(self, flow: _Optional[int] = ..., target: _Optional[str] = ..., level: _Optional[int] = ..., share: _Optional[str] = ..., lacks: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("what", "sequence")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    what: bytes
    sequence: int
    def __init__(self, what: _Optional[bytes] = ..., sequence: _Optional[int] = ...) -> None: ...

class ExplainAnswer(_message.Message):
    __slots__ = ("routes",)
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    routes: _containers.RepeatedCompositeFieldContainer[Route]
    def __init__(self, routes: _Optional[_Iterable[_Union[Route, _Mapping]]] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("topic", "partitions", "flow", "target", "level", "share", "writer", "state", "carried", "lacks", "why")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    partitions: int
    flow: int
    target: str
    level: int
    share: str
    writer: str
    state: str
    carried: bool
    lacks: int
    why: str
    def __init__(self, topic: _Optional[bytes] = ..., partitions: _Optional[int] = ..., flow: _Optional[int] = ..., target: _Optional[str] = ..., level: _Optional[int] = ..., share: _Optional[str] = ..., writer: _Optional[str] = ..., state: _Optional[str] = ..., carried: _Optional[bool] = ..., lacks: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class RetargetRequest(_message.Message):
    __slots__ = ("level", "to")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    level: int
    to: str
    def __init__(self, level: _Optional[int] = ..., to: _Optional[str] = ...) -> None: ...

class RetargetAnswer(_message.Message):
    __slots__ = ("links",)
    LINKS_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[AimedLink]
    def __init__(self, links: _Optional[_Iterable[_Union[AimedLink, _Mapping]]] = ...) -> None: ...

class AimedLink(_message.Message):
    __slots__ = ("target", "level", "topics")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    target: str
    level: int
    topics: str
    def __init__(self, target: _Optional[str] = ..., level: _Optional[int] = ..., topics: _Optional[str] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ("level", "paused")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    level: int
    paused: bool
    def __init__(self, level: _Optional[int] = ..., paused: _Optional[bool] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("level", "topic")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    level: int
    topic: bytes
    def __init__(self, level: _Optional[int] = ..., topic: _Optional[bytes] = ...) -> None: ...

class ResumeAnswer(_message.Message):
    __slots__ = ("partitions", "records")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    partitions: int
    records: int
    def __init__(self, partitions: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...
