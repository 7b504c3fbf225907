"""Every machine, and that it has the shape of `dafka.protocol.machine.Machine`."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dafka.gateway.consumer_group import ConsumerGroupMachine
from dafka.gateway.coordinator import CoordinatorMachine, CoordinatorSettings
from dafka.gateway.machine import GatewayMachine
from dafka.gateway.owner import LedgerMachine
from dafka.groups.consumer import GroupMachine, GroupSettings
from dafka.groups.member import MemberMachine
from dafka.groups.membership import Member
from dafka.protocol.consumer import ConsumerMachine, ConsumerSettings, Start
from dafka.protocol.events import Woke
from dafka.protocol.mirror import MirrorMachine, MirrorSettings
from dafka.protocol.presence import PresenceMachine, PresenceSettings
from dafka.protocol.producer import ProducerMachine, ProducerSettings
from dafka.protocol.store import StoreMachine
from dafka.wire.beacon import NodeBeacon
from distributor.control.controller import ControllerMachine
from distributor.control.events import SessionSettings
from distributor.control.grants import NO_WISHES, GrantMachine, GrantSettings
from distributor.control.messages import CreateInstance
from distributor.control.replica import ReplicaMachine
from distributor.control.waits import WaitMachine, WaitSettings
from distributor.link.events import Side
from distributor.link.machine import LinkMachine
from distributor.link.settings import LinkSettings
from distributor.link.target import TargetMachine, TargetSettings

ROOT = Path(__file__).parents[2]


def member():
    return MemberMachine("billing", "ME", Member((), 1_000), 1)


def group():
    settings = GroupSettings(stores=1, latest=False, auto_commit_ms=None, hold_ms_max=1_000)
    return GroupMachine(ConsumerMachine("ME", ConsumerSettings()), member(), settings)


def link():
    source = ConsumerMachine("ME", ConsumerSettings(start=Start.ASSIGNED, committed=True))
    mirror = MirrorMachine(MirrorSettings())
    return LinkMachine(level=1, origin=7, source=source, mirror=mirror, settings=LinkSettings())


MACHINES = {
    ConsumerMachine: ("Event, Effect", lambda: ConsumerMachine("ME", ConsumerSettings())),
    ConsumerGroupMachine: (
        "CoordinatorEvent, CoordinatorEffect",
        lambda: ConsumerGroupMachine(CoordinatorSettings(), lambda _topic: 0),
    ),
    ControllerMachine: (
        "ControllerEvent, ControllerEffect",
        lambda: ControllerMachine("c1", 1, "r1", SessionSettings()),
    ),
    CoordinatorMachine: (
        "CoordinatorEvent, CoordinatorEffect",
        lambda: CoordinatorMachine(CoordinatorSettings()),
    ),
    GatewayMachine: (
        "Event | GatewayEvent | Answered, object",
        lambda: GatewayMachine("ME", "127.0.0.1:9092", 1, lambda: "AB"),
    ),
    GrantMachine: (
        "GrantEvent, GrantEffect",
        lambda: GrantMachine(
            1, CreateInstance("north", 7), [], ["r1"], NO_WISHES, GrantSettings(), 0
        ),
    ),
    GroupMachine: ("Event | GroupEvent, GroupEffect", group),
    LedgerMachine: ("LedgerEvent, LedgerEffect", lambda: LedgerMachine(3)),
    LinkMachine: ("SidedEvent, SidedEffect", link),
    MemberMachine: ("MemberEvent, MemberEffect", member),
    MirrorMachine: ("Event, Effect", lambda: MirrorMachine(MirrorSettings())),
    PresenceMachine: (
        "PresenceEvent, PresenceEffect",
        lambda: PresenceMachine(NodeBeacon("ME", "h", 1), PresenceSettings(), ["tower"]),
    ),
    ProducerMachine: ("Event, Effect", lambda: ProducerMachine("ME", ProducerSettings())),
    ReplicaMachine: (
        "ReplicaEvent, ReplicaEffect",
        lambda: ReplicaMachine("r1", SessionSettings()),
    ),
    StoreMachine: ("Event, Effect", lambda: StoreMachine("ME", {})),
    TargetMachine: (
        "TargetEvent, TargetEffect",
        lambda: TargetMachine(("a", "b"), TargetSettings(), 0),
    ),
    WaitMachine: ("WaitEvent, WaitEffect", lambda: WaitMachine(WaitSettings())),
}
"""What each is told, what it asks for, and how one is made."""

IMPORTS = """
from dafka.gateway.effects import GatewayEvent
from dafka.gateway.events import LedgerEffect, LedgerEvent
from dafka.gateway.group_events import CoordinatorEffect, CoordinatorEvent
from dafka.groups.consumer import GroupEffect
from dafka.groups.events import Answered, GroupEvent, MemberEffect, MemberEvent
from dafka.protocol.effects import Effect
from dafka.protocol.events import Event
from dafka.protocol.machine import Machine
from dafka.protocol.presence import PresenceEffect, PresenceEvent
from distributor.control.events import (
    ControllerEffect, ControllerEvent, ReplicaEffect, ReplicaEvent,
)
from distributor.control.grants import GrantEffect, GrantEvent
from distributor.control.waits import WaitEffect, WaitEvent
from distributor.link.events import SidedEffect, SidedEvent
from distributor.link.target import TargetEffect, TargetEvent
"""


def test_every_machine_is_here():
    found = {
        name
        for package in ("dafka", "distributor")
        for path in (ROOT / package).rglob("*.py")
        for name in re.findall(r"^class (\w+Machine)\b", path.read_text(), re.MULTILINE)
    }
    assert found == {machine.__name__ for machine in MACHINES}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_has_the_one_shape(machine):
    one = MACHINES[machine][1]()
    assert list(inspect.signature(one.handle).parameters) == ["event", "now_ms"]
    woke = (Side.SOURCE, Woke()) if machine is LinkMachine else Woke()
    assert isinstance(one.handle(woke, 0), list)
    due_ms = one.wakeup_ms()
    assert due_ms is None or due_ms >= 0
    assert one.wakeup_ms() == due_ms, "to ask changes nothing"
    assert one.check() is None


def typed(path, *lines):
    """What mypy has to say of some lines."""
    path.write_text(IMPORTS + "\n".join(lines))
    command = [sys.executable, "-m", "mypy", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_the_type_checker_finds_the_same(tmp_path):
    program, lines = tmp_path / "program.py", []
    for machine, (told_and_asked, _) in MACHINES.items():
        name = machine.__name__
        lines.append(f"from {machine.__module__} import {name}")
        lines.append(f"_{name}: type[Machine[{told_and_asked}]] = {name}")
    assert "Success" in typed(program, *lines)
    lines.append("wrong: type[Machine[str, Effect]] = StoreMachine")
    assert "Incompatible types" in typed(program, *lines)
