from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FlowKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLOW_KIND_UNSPECIFIED: _ClassVar[FlowKind]
    FLOW_KIND_RECORDS: _ClassVar[FlowKind]
    FLOW_KIND_OFFSETS: _ClassVar[FlowKind]
    FLOW_KIND_SCHEMAS: _ClassVar[FlowKind]

class FlowStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLOW_STATUS_UNSPECIFIED: _ClassVar[FlowStatus]
    FLOW_STATUS_SUSPENDED: _ClassVar[FlowStatus]
    FLOW_STATUS_WARM: _ClassVar[FlowStatus]
    FLOW_STATUS_WRITING: _ClassVar[FlowStatus]
    FLOW_STATUS_DRAINING: _ClassVar[FlowStatus]
    FLOW_STATUS_FAILED: _ClassVar[FlowStatus]
FLOW_KIND_UNSPECIFIED: FlowKind
FLOW_KIND_RECORDS: FlowKind
FLOW_KIND_OFFSETS: FlowKind
FLOW_KIND_SCHEMAS: FlowKind
FLOW_STATUS_UNSPECIFIED: FlowStatus
FLOW_STATUS_SUSPENDED: FlowStatus
FLOW_STATUS_WARM: FlowStatus
FLOW_STATUS_WRITING: FlowStatus
FLOW_STATUS_DRAINING: FlowStatus
FLOW_STATUS_FAILED: FlowStatus

class Commands(_message.Message):
    __slots__ = ("commands",)
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    commands: _containers.RepeatedCompositeFieldContainer[Command]
    def __init__(self, commands: _Optional[_Iterable[_Union[Command, _Mapping]]] = ...) -> None: ...

class Responses(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[Response]
    def __init__(self, responses: _Optional[_Iterable[_Union[Response, _Mapping]]] = ...) -> None: ...

class Command(_message.Message):
    __slots__ = ("hello", "create_instance", "update_configuration", "create_flow", "schedule", "allow_writes", "allow_compaction", "peek", "cancel_peek", "initialization_complete", "ping")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CREATE_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    CREATE_FLOW_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_WRITES_FIELD_NUMBER: _ClassVar[int]
    ALLOW_COMPACTION_FIELD_NUMBER: _ClassVar[int]
    PEEK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_PEEK_FIELD_NUMBER: _ClassVar[int]
    INITIALIZATION_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    create_instance: CreateInstance
    update_configuration: UpdateConfiguration
    create_flow: CreateFlow
    schedule: Schedule
    allow_writes: AllowWrites
    allow_compaction: AllowCompaction
    peek: Peek
    cancel_peek: CancelPeek
    initialization_complete: InitializationComplete
    ping: Ping
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., create_instance: _Optional[_Union[CreateInstance, _Mapping]] = ..., update_configuration: _Optional[_Union[UpdateConfiguration, _Mapping]] = ..., create_flow: _Optional[_Union[CreateFlow, _Mapping]] = ..., schedule: _Optional[_Union[Schedule, _Mapping]] = ..., allow_writes: _Optional[_Union[AllowWrites, _Mapping]] = ..., allow_compaction: _Optional[_Union[AllowCompaction, _Mapping]] = ..., peek: _Optional[_Union[Peek, _Mapping]] = ..., cancel_peek: _Optional[_Union[CancelPeek, _Mapping]] = ..., initialization_complete: _Optional[_Union[InitializationComplete, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("hello_ok", "frontiers", "flow_state", "flow_dropped", "peek_response", "pong")
    HELLO_OK_FIELD_NUMBER: _ClassVar[int]
    FRONTIERS_FIELD_NUMBER: _ClassVar[int]
    FLOW_STATE_FIELD_NUMBER: _ClassVar[int]
    FLOW_DROPPED_FIELD_NUMBER: _ClassVar[int]
    PEEK_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    hello_ok: HelloOk
    frontiers: Frontiers
    flow_state: FlowState
    flow_dropped: FlowDropped
    peek_response: PeekResponse
    pong: Pong
    def __init__(self, hello_ok: _Optional[_Union[HelloOk, _Mapping]] = ..., frontiers: _Optional[_Union[Frontiers, _Mapping]] = ..., flow_state: _Optional[_Union[FlowState, _Mapping]] = ..., flow_dropped: _Optional[_Union[FlowDropped, _Mapping]] = ..., peek_response: _Optional[_Union[PeekResponse, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ...) -> None: ...

class Frontier(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicFrontier]
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicFrontier, _Mapping]]] = ...) -> None: ...

class TopicFrontier(_message.Message):
    __slots__ = ("topic", "ends")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    ends: _containers.RepeatedCompositeFieldContainer[PartitionEnd]
    def __init__(self, topic: _Optional[bytes] = ..., ends: _Optional[_Iterable[_Union[PartitionEnd, _Mapping]]] = ...) -> None: ...

class PartitionEnd(_message.Message):
    __slots__ = ("address", "end")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    address: bytes
    end: int
    def __init__(self, address: _Optional[bytes] = ..., end: _Optional[int] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("source", "level", "branch", "targets", "beyond", "span", "topics")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    BEYOND_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    source: str
    level: int
    branch: int
    targets: _containers.RepeatedScalarFieldContainer[str]
    beyond: _containers.RepeatedScalarFieldContainer[str]
    span: _containers.RepeatedScalarFieldContainer[str]
    topics: str
    def __init__(self, source: _Optional[str] = ..., level: _Optional[int] = ..., branch: _Optional[int] = ..., targets: _Optional[_Iterable[str]] = ..., beyond: _Optional[_Iterable[str]] = ..., span: _Optional[_Iterable[str]] = ..., topics: _Optional[str] = ...) -> None: ...

class Flow(_message.Message):
    __slots__ = ("link", "kind", "share", "shares", "passes")
    LINK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    link: Link
    kind: FlowKind
    share: int
    shares: int
    passes: _containers.RepeatedCompositeFieldContainer[Hole]
    def __init__(self, link: _Optional[_Union[Link, _Mapping]] = ..., kind: _Optional[_Union[FlowKind, str]] = ..., share: _Optional[int] = ..., shares: _Optional[int] = ..., passes: _Optional[_Iterable[_Union[Hole, _Mapping]]] = ...) -> None: ...

class Hole(_message.Message):
    __slots__ = ("topic", "address", "first", "end")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    topic: bytes
    address: bytes
    first: int
    end: int
    def __init__(self, topic: _Optional[bytes] = ..., address: _Optional[bytes] = ..., first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("controller", "epoch", "oldest", "newest", "replica")
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    controller: str
    epoch: int
    oldest: int
    newest: int
    replica: str
    def __init__(self, controller: _Optional[str] = ..., epoch: _Optional[int] = ..., oldest: _Optional[int] = ..., newest: _Optional[int] = ..., replica: _Optional[str] = ...) -> None: ...

class CreateInstance(_message.Message):
    __slots__ = ("cluster", "number")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    number: int
    def __init__(self, cluster: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class UpdateConfiguration(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, int]
    def __init__(self, values: _Optional[_Mapping[str, int]] = ...) -> None: ...

class CreateFlow(_message.Message):
    __slots__ = ("number", "flow", "start")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    number: int
    flow: Flow
    start: Frontier
    def __init__(self, number: _Optional[int] = ..., flow: _Optional[_Union[Flow, _Mapping]] = ..., start: _Optional[_Union[Frontier, _Mapping]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("flow",)
    FLOW_FIELD_NUMBER: _ClassVar[int]
    flow: int
    def __init__(self, flow: _Optional[int] = ...) -> None: ...

class AllowWrites(_message.Message):
    __slots__ = ("flow", "epoch")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    flow: int
    epoch: int
    def __init__(self, flow: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class AllowCompaction(_message.Message):
    __slots__ = ("flow", "before")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    flow: int
    before: Frontier
    def __init__(self, flow: _Optional[int] = ..., before: _Optional[_Union[Frontier, _Mapping]] = ...) -> None: ...

class Peek(_message.Message):
    __slots__ = ("number", "flow", "at_least")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    number: int
    flow: int
    at_least: Frontier
    def __init__(self, number: _Optional[int] = ..., flow: _Optional[int] = ..., at_least: _Optional[_Union[Frontier, _Mapping]] = ...) -> None: ...

class CancelPeek(_message.Message):
    __slots__ = ("peek",)
    PEEK_FIELD_NUMBER: _ClassVar[int]
    peek: int
    def __init__(self, peek: _Optional[int] = ...) -> None: ...

class InitializationComplete(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ping(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class HelloOk(_message.Message):
    __slots__ = ("version", "replica")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    version: int
    replica: str
    def __init__(self, version: _Optional[int] = ..., replica: _Optional[str] = ...) -> None: ...

class Frontiers(_message.Message):
    __slots__ = ("flow", "input", "write", "output")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    flow: int
    input: Frontier
    write: Frontier
    output: Frontier
    def __init__(self, flow: _Optional[int] = ..., input: _Optional[_Union[Frontier, _Mapping]] = ..., write: _Optional[_Union[Frontier, _Mapping]] = ..., output: _Optional[_Union[Frontier, _Mapping]] = ...) -> None: ...

class FlowState(_message.Message):
    __slots__ = ("flow", "status", "epoch", "reason")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    flow: int
    status: FlowStatus
    epoch: int
    reason: str
    def __init__(self, flow: _Optional[int] = ..., status: _Optional[_Union[FlowStatus, str]] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class FlowDropped(_message.Message):
    __slots__ = ("flow",)
    FLOW_FIELD_NUMBER: _ClassVar[int]
    flow: int
    def __init__(self, flow: _Optional[int] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("peek", "positions", "error", "canceled")
    PEEK_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CANCELED_FIELD_NUMBER: _ClassVar[int]
    peek: int
    positions: Frontier
    error: str
    canceled: Canceled
    def __init__(self, peek: _Optional[int] = ..., positions: _Optional[_Union[Frontier, _Mapping]] = ..., error: _Optional[str] = ..., canceled: _Optional[_Union[Canceled, _Mapping]] = ...) -> None: ...

class Canceled(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Wishes(_message.Message):
    __slots__ = ("epoch", "version", "flows", "place", "aims", "paused", "levels_epoch", "passed")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    AIMS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    LEVELS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    version: int
    flows: _containers.RepeatedCompositeFieldContainer[Wished]
    place: str
    aims: _containers.RepeatedCompositeFieldContainer[Aim]
    paused: _containers.RepeatedScalarFieldContainer[int]
    levels_epoch: int
    passed: _containers.RepeatedCompositeFieldContainer[LinkHoles]
    def __init__(self, epoch: _Optional[int] = ..., version: _Optional[int] = ..., flows: _Optional[_Iterable[_Union[Wished, _Mapping]]] = ..., place: _Optional[str] = ..., aims: _Optional[_Iterable[_Union[Aim, _Mapping]]] = ..., paused: _Optional[_Iterable[int]] = ..., levels_epoch: _Optional[int] = ..., passed: _Optional[_Iterable[_Union[LinkHoles, _Mapping]]] = ...) -> None: ...

class LinkHoles(_message.Message):
    __slots__ = ("level", "branch", "topics", "holes")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    level: int
    branch: int
    topics: str
    holes: _containers.RepeatedCompositeFieldContainer[Hole]
    def __init__(self, level: _Optional[int] = ..., branch: _Optional[int] = ..., topics: _Optional[str] = ..., holes: _Optional[_Iterable[_Union[Hole, _Mapping]]] = ...) -> None: ...

class Aim(_message.Message):
    __slots__ = ("level", "branch", "topics", "target")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    level: int
    branch: int
    topics: str
    target: str
    def __init__(self, level: _Optional[int] = ..., branch: _Optional[int] = ..., topics: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class Wished(_message.Message):
    __slots__ = ("number", "flow", "writer", "epoch")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    number: int
    flow: Flow
    writer: str
    epoch: int
    def __init__(self, number: _Optional[int] = ..., flow: _Optional[_Union[Flow, _Mapping]] = ..., writer: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("number", "progress")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    number: int
    progress: int
    def __init__(self, number: _Optional[int] = ..., progress: _Optional[int] = ...) -> None: ...
