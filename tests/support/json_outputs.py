"""What commands print with `--json`, as JSON Schema: made from the types of what they print.

`python -m tests.support.json_outputs` writes docs/json-output.schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from jsonschema import Draft202012Validator

from dafka.cli.context import ContextRow
from dafka.cli.gateway_looks import (
    CommittedRow,
    ConnectionRow,
    CoordinatedGroupRow,
    ServedPartitionRow,
    ServedTopicRow,
)
from dafka.cli.groups import GroupRow, MemberRow, PositionRow, ResetRow
from dafka.cli.queries import HoleRow
from dafka.cli.topics import DroppedRow, PartitionRow, SettingRow, TopicRow
from dafka.gateway.ledger_check import CheckedLedger
from dafka.storage.check import CheckReport
from distributor.cli.offsets import ForcedPosition
from distributor.control.holds import HeldForRow
from distributor.control.overview import ControlledFlowRow, DrivenReplicaRow
from distributor.control.protocol import LinkRow, PassedOver
from distributor.control.questions import AimedLinkRow, LeftFlowRow, RouteRow, Waited
from distributor.offsets.explanation import OffsetRow
from distributor.operations.doctor import Diagnosis
from distributor.operations.loss import Gone, Loss
from distributor.operations.recovery import RecoveryPoint
from distributor.operations.status import (
    ClusterStatus,
    LatePartition,
    LinkStatus,
    Status,
    StoppedPartition,
)
from distributor.schemas.difference import SchemaDiff
from distributor.schemas.promotion import Promoted
from distributor.verify.verdict import Difference, Verdict
from distributor.verify.waiting import Awaited
from topology.capacity import ClusterSize, ProcessSize, Sizing
from topology.cli import LinkOfPlan, NamesRow
from topology.diff import Step
from topology.errors import Problem
from topology.output import JSON_VERSION
from topology.prove import Proof
from topology.spread import Hop
from topology.transition import Refusal

FILE = Path(__file__).parents[2] / "docs/json-output.schema.json"

Names = list[str]
OCTETS = {
    "description": 'Text stands for its UTF-8, {"base64": "…"} for any bytes, null for none.',
    "anyOf": [
        {"type": ["string", "null"]},
        {
            "type": "object",
            "properties": {"base64": {"type": "string"}},
            "required": ["base64"],
            "additionalProperties": False,
        },
    ],
}
RECORD = {
    "topic": str,
    "address": str,
    "sequence": int,
    "timestamp_ms": int,
    "key": OCTETS,
    "value": OCTETS,
    "headers": {"type": "object", "additionalProperties": OCTETS},
    "copy_flags": int,
    "origin": int,
}
MOVED = {"group": str, "committed": bool, "positions": list[ResetRow]}
TAKEN = {"action": str, "text": str, "took_s": float}
PROVED = ("origins", "runs", "combinations", "complete", "failure")
COUNTS = dict.fromkeys(("clusters", "levels", "distributors", "links"), int | None)


def of(kind: type, *left_out: str) -> dict[str, Any]:
    """The fields that `topology.output.fields_of` names, with their types."""
    hints = get_type_hints(kind, localns=KNOWN)
    names = getattr(kind, "__struct_fields__", None) or [one.name for one in fields(kind)]
    return {name: hints[name] for name in names if name not in left_out}


KNOWN = {
    "Mapping": Mapping,
    "Sequence": Sequence,
    "ClusterName": str,
    "ClusterText": str,
    **{one.__name__: one for one in (RecoveryPoint, LinkStatus, ClusterStatus, LatePartition)},
    **{one.__name__: one for one in (StoppedPartition, Gone, LeftFlowRow, Difference)},
    **{one.__name__: one for one in (ClusterSize, ProcessSize)},
}
"""What modules import for type checkers only."""

LINK = {**of(LinkRow), "stopped": tuple[StoppedPartition, ...]}
SHOWN_PROBLEM = of(Problem)

COPIED = {"partitions": int, "records": int}

OUTPUTS: dict[str, tuple[dict[str, Any], ...]] = {
    "dafka consume": (RECORD,),
    "dafka peek": (RECORD,),
    "dafka topics list": (of(TopicRow),),
    "dafka topics describe": (of(PartitionRow),),
    "dafka topics delete": ({"topic": str, "dropped": bool, "stores": list[DroppedRow]},),
    "dafka topics config": (of(SettingRow),),
    "dafka holes": (of(HoleRow),),
    "dafka groups show": (of(GroupRow), of(PositionRow)),
    "dafka groups members": (of(MemberRow),),
    "dafka groups reset": (MOVED,),
    "dafka groups delete": (MOVED,),
    "dafka context list": (of(ContextRow),),
    "dafka context show": (of(ContextRow),),
    "dafka store check": (of(CheckReport),),
    "dafka store compact": ({"bytes_before": int, "bytes_after": int},),
    "dafka store backup": ({**COPIED, "bytes": int, "sha256": str, "store": str},),
    "dafka store restore": ({**COPIED, "made_ms": int, "store": str, "store_before": str},),
    "dafka gateway status": ({"gateway": str, "ready": bool, "reasons": Names},),
    "dafka gateway topics": (of(ServedTopicRow), of(ServedPartitionRow)),
    "dafka gateway groups": (of(CoordinatedGroupRow), of(CommittedRow)),
    "dafka gateway connections": (of(ConnectionRow),),
    "dafka gateway ledger check": (of(CheckedLedger),),
    "distributor status": (of(Status),),
    "distributor verify": ({"equal": bool, **of(Verdict), "left": Names},),
    "distributor wait": ({"everywhere": bool, "after_s": float, "clusters": list[Awaited]},),
    "distributor trace": ({"hops": list[Hop]},),
    "distributor doctor": ({"well": bool, "findings": list[Diagnosis]},),
    "distributor links": ({"links": [LINK], "unreachable": Names},),
    "distributor retarget": (LINK, of(AimedLinkRow)),
    "distributor resume": (of(PassedOver),),
    "distributor lost": ({**of(Loss), "gone": list[Gone] | None},),
    "distributor apply": (
        {"applied": bool, "steps": [TAKEN], "waits_for": str},
        {"applied": bool, "steps": [TAKEN], "refused": Names},
    ),
    "distributor offsets explain": ({"group": str, "positions": list[OffsetRow]},),
    "distributor offsets wait": ({"group": str, "cluster": str, "lacking": Names},),
    "distributor offsets force": (
        {"group": str, "cluster": str, "committed": bool, "positions": list[ForcedPosition]},
    ),
    "distributor schemas diff": ({"equal": bool, **of(SchemaDiff)},),
    "distributor schemas promote": (of(Promoted),),
    "distributor controller status": (
        {
            "controller": str,
            "in_charge": bool,
            "epoch": int,
            "flows": int,
            "written": int,
            "replicas": int,
            "away": Names,
        },
    ),
    "distributor controller flows": (of(ControlledFlowRow),),
    "distributor controller grants": (of(ControlledFlowRow),),
    "distributor controller replicas": (of(DrivenReplicaRow),),
    "distributor controller held": (of(HeldForRow),),
    "distributor controller wait": ({"there": bool, "after_s": float, **of(Waited)},),
    "distributor controller explain": (of(RouteRow),),
    "distributor controller retarget": (of(AimedLinkRow),),
    "distributor controller failback": (of(AimedLinkRow),),
    "distributor controller pause": (of(AimedLinkRow),),
    "distributor controller unpause": (of(AimedLinkRow),),
    "distributor controller resume": (of(PassedOver),),
    "topology check": ({"valid": bool, "problems": [SHOWN_PROBLEM], **COUNTS},),
    "topology deploy": ({"changed": Names},),
    "topology size": (of(Sizing),),
    "topology plan": ({"links": list[LinkOfPlan]},),
    "topology names": ({"names": list[NamesRow]},),
    "topology prove": ({"holds": bool, **{name: of(Proof)[name] for name in PROVED}},),
    "topology diff": ({"allowed": bool, "steps": list[Step], "refusals": list[Refusal]},),
}
"""By command: each kind of object that it prints, by the names of its fields."""

DEFAULTS = {"dafka groups": "dafka groups show", "dafka topics": "dafka topics list"}
"""Which command of a group is meant where none is named."""

PLAIN = {int: "integer", str: "string", bool: "boolean", float: "number", NoneType: "null"}


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a value that is printed.

    Args:
        kind: Its type; or one that has no type: the types of its fields, a list of one kind, or
            what is a schema already.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, list):
        return {"type": "array", "items": schema_of(*kind)}
    if isinstance(kind, dict):
        return kind if "type" in kind or "anyOf" in kind else object_of(kind)
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if origin in (Union, UnionType):
        each = [schema_of(one) for one in arguments]
        if all([*one] == ["type"] for one in each):
            return {"type": [one["type"] for one in each]}
        return {"anyOf": each}
    if origin in (list, tuple, Sequence):
        assert arguments[1:] in ((), (...,)), kind
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if supertype := getattr(kind, "__supertype__", None):
        return schema_of(supertype)
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    assert is_dataclass(kind) or hasattr(kind, "__struct_fields__"), kind
    return object_of(of(kind))


def object_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in fields.items()},
        "required": [*fields],
        "additionalProperties": False,
    }


def document() -> dict[str, Any]:
    """All of them, by the names of the commands."""
    version = {"const": JSON_VERSION}
    definitions = {}
    for command, kinds in OUTPUTS.items():
        each = [object_of({"version": {"type": "integer", **version}, **kind}) for kind in kinds]
        definitions[command] = each[0] if len(each) == 1 else {"anyOf": each}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What commands print with --json, a line each, by command",
        "$defs": definitions,
    }


def written() -> str:
    """The file."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def check(program: str, words: Sequence[str], printed: str) -> int:
    """Make sure that what a command has printed is what its schema says; returns how much that was.

    Args:
        program: Which has the command.
        words: Behind its name.
        printed: On standard output.
    """
    if "--json" not in words or not printed or (program == "dafka" and words[0] == "produce"):
        return 0
    names = [" ".join((program, *words[:count])) for count in (3, 2, 1)]
    command = next((one for one in names if one in OUTPUTS), None) or DEFAULTS[names[-1]]
    validator = Draft202012Validator(document()["$defs"][command])
    lines = printed.splitlines()
    for line in lines:
        validator.validate(json.loads(line))
    return len(lines)


def rows_of(printed: str | bytes) -> list[dict[str, Any]]:
    """What a command has printed, object by object, less their version, which is this one's."""
    rows = [json.loads(line) for line in printed.splitlines()]
    assert {row.pop("version") for row in rows} <= {JSON_VERSION}
    return rows


if __name__ == "__main__":
    FILE.write_text(written())
