"""A replica over gRPC: one stream a session, and each end of one said."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import grpc
import pytest
import trustme

from dafka.errors import MisuseError
from dafka.limits import CONTROL_SESSIONS_MAX
from dafka.process.authority import new_authority, new_certificate
from distributor.control.certificates import Certificates
from distributor.control.events import SessionSettings
from distributor.control.messages import (
    AllowCompaction,
    AllowWrites,
    CreateInstance,
    FlowDropped,
    FlowState,
    FlowStatus,
    Frontiers,
    HelloOk,
    Peek,
    PeekResponse,
    Positions,
    Schedule,
)
from distributor.control.replica import ReplicaStage
from distributor.control.replica_server import ReplicaServer
from distributor.control.wire import ENDS_AT_ONCE_MAX
from distributor.errors import CommandError
from distributor.link.progress import LinkProgress
from tests.support.control_commands import COMPLETE, A, create, hello
from tests.support.control_sessions import INSTANCE, Session, Works

pytestmark = pytest.mark.net

WINDOW = create(1), Schedule(1)


@pytest.fixture
def works():
    return Works()


@pytest.fixture
def serve(works):
    """A function that starts a replica."""
    servers = []

    def start(**given):
        servers.append(ReplicaServer("r1", INSTANCE, "127.0.0.1:0", works, **given))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def replica(serve):
    return serve()


@pytest.fixture
def connect():
    """A function that begins a session, on a connection of its own."""
    channels = []

    def begin(replica):
        channels.append(grpc.insecure_channel(f"127.0.0.1:{replica.port}"))
        return Session(channels[-1])

    yield begin
    for channel in channels:
        channel.close()


def test_a_flow_goes_through_all_stages(replica, connect, works, until):
    assert replica.unready() == "no controller has come yet"
    one = connect(replica).begin(create(1))
    one.wait_for(FlowState(1, FlowStatus.SUSPENDED, 0))
    assert one.responses[0] == HelloOk(1, "r1")
    one.tell(Schedule(1))
    one.wait_for(FlowState(1, FlowStatus.WARM, 0))
    assert not works.last.permitted
    assert replica.unready() == "it may not write"
    one.tell(AllowWrites(1, 3))
    one.wait_for(FlowState(1, FlowStatus.WRITING, 3))
    assert works.last.permitted
    assert replica.unready() == ""
    works.last.progress = LinkProgress({A: 5}, {A: 4}, {A: 4})
    one.wait_for(Frontiers(1, {A: 5}, {A: 4}, {A: 4}))
    one.tell(Peek(1, 1, {A: 5}))
    works.last.progress = LinkProgress({A: 5}, {A: 5}, {A: 5})
    one.wait_for(PeekResponse(1, Positions({A: 5})))
    one.tell(AllowCompaction(1, None))
    one.wait_for(FlowDropped(1))
    assert works.last.closed
    assert replica.unwell() == ""
    assert not replica.join(0)


def test_what_an_answer_says_of_flows_is_how_it_is_then(replica, connect):
    one = connect(replica).begin(*WINDOW)
    one.wait_for(FlowState(1, FlowStatus.WARM, 0))
    told = [one.pong(number).progress for number in range(1, 5)]
    assert len({*told}) == 4, "they turn all the time"


def test_flows_go_on_without_a_controller_and_are_found_again(replica, connect, works, until):
    first = connect(replica).begin(*WINDOW, AllowWrites(1, 3))
    first.wait_for(FlowState(1, FlowStatus.WRITING, 3))
    first.hang_up()
    assert first.ended() == (grpc.StatusCode.OK, None, None)
    second = connect(replica).begin(*WINDOW, AllowWrites(1, 3))
    second.wait_for(FlowState(1, FlowStatus.WRITING, 3))
    assert len(works.opened) == 1, "who wants the same disturbs nothing"
    third = connect(replica).begin(*WINDOW)
    assert second.ended() == (grpc.StatusCode.ABORTED, "superseded", "1")
    third.wait_for(FlowState(1, FlowStatus.WARM, 0))
    assert [(one.permitted, one.closed) for one in works.opened] == [(True, True), (False, False)]


def test_progress_grows_while_flows_turn(replica, connect, works, until):
    one = connect(replica).begin(*WINDOW)
    one.wait_for(FlowState(1, FlowStatus.WARM, 0))
    numbers = iter(range(1, 1_000))
    before = one.pong(next(numbers)).progress
    until(lambda: one.pong(next(numbers)).progress > before)
    works.last.turned_ms = 0
    until(lambda: one.pong(next(numbers)).progress == one.pong(next(numbers)).progress)


def test_who_is_stale_is_told_the_epoch(replica, connect):
    one = connect(replica).begin(greeting=hello(epoch=5))
    one.pong(1)
    other = connect(replica)
    other.tell(hello(epoch=4, controller="c2"))
    assert other.ended() == (grpc.StatusCode.FAILED_PRECONDITION, "stale", "5")
    one.pong(2)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"\xff", "violation"),
        (bytes([1 << 3 | 2, 2, 15 << 3 | 2, 0]), "violation"),
        (bytes([1 << 3 | 2, 0]), "violation"),
    ],
)
def test_what_is_not_understood_ends_the_session(replica, connect, octets, why):
    one = connect(replica).begin()
    one.pong(1)
    one.tell_octets(octets)
    assert one.ended() == (grpc.StatusCode.INVALID_ARGUMENT, why, "1")


def test_other_ends_have_their_own_status(replica, connect):
    one = connect(replica)
    one.tell(hello(replica="r2"))
    assert one.ended()[:2] == (grpc.StatusCode.NOT_FOUND, "wrong replica")
    one = connect(replica)
    one.tell(hello(oldest=8, newest=9))
    assert one.ended()[:2] == (grpc.StatusCode.UNIMPLEMENTED, "version")


def test_who_says_nothing_is_cut(serve, connect):
    replica = serve(settings=SessionSettings(silence_ms=200))
    silent = connect(replica)
    assert silent.ended() == (grpc.StatusCode.DEADLINE_EXCEEDED, "silent", "0")
    one = connect(replica).begin()
    assert one.ended()[1] == "silent"


def test_sessions_are_bounded(serve, connect, until):
    # On a busy machine it takes a while until all have said who they are.
    replica = serve(settings=SessionSettings(silence_ms=60_000))
    crowd = [connect(replica) for _ in range(CONTROL_SESSIONS_MAX)]
    until(lambda: len(replica._streams) == CONTROL_SESSIONS_MAX)
    assert connect(replica).ended()[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    for one in crowd:
        one.tell(hello(replica="nobody"))
    assert {one.ended()[0] for one in crowd} == {grpc.StatusCode.NOT_FOUND}
    until(lambda: not replica._streams)
    connect(replica).begin().pong(1)


@pytest.mark.slow
def test_who_does_not_read_is_cut(serve, connect, works, until):
    replica = serve(settings=SessionSettings(waiting_max=5, silence_ms=60_000))
    one = connect(replica).begin(*WINDOW)
    one.wait_for(FlowState(1, FlowStatus.WARM, 0))
    ends = {A._replace(address=f"{n:032X}"): n + 1 for n in range(50_000)}
    works.last.progress = LinkProgress(ends, ends, ends)
    until(lambda: replica._machine.table.runs[1].write == ends)
    with one.answered:  # it reads nothing more, and its answers are 2 MB each
        one.tell(*(Peek(number, 1, {}) for number in range(2, 40)))
        until(lambda: replica._machine.stage is ReplicaStage.DETACHED)
    assert one.ended()[:2] == (grpc.StatusCode.RESOURCE_EXHAUSTED, "behind")


def test_how_far_very_many_partitions_are_arrives(replica, connect, works):
    one = connect(replica).begin(*WINDOW)
    one.wait_for(FlowState(1, FlowStatus.WARM, 0))
    ends = {A._replace(address=f"{n:X}"): n + 1 for n in range(ENDS_AT_ONCE_MAX + 5)}
    works.last.progress = LinkProgress(ends, ends, ends)
    last = dict([*ends.items()][ENDS_AT_ONCE_MAX:])
    one.wait_for(Frontiers(1, last, last, last))


def test_another_instance_ends_the_process(replica, connect):
    one = connect(replica)
    one.tell(hello(), CreateInstance("south", 8), COMPLETE)
    assert one.ended() == (grpc.StatusCode.FAILED_PRECONDITION, "incompatible", "1")
    with pytest.raises(CommandError, match="another instance"):
        replica.join(60)


def test_a_machine_that_breaks_its_rules_ends_the_process(replica, connect, monkeypatch):
    def break_it(*_):
        raise AssertionError("broken")

    monkeypatch.setattr(replica._machine, "handle", break_it)
    one = connect(replica)
    one.tell(hello())
    with pytest.raises(AssertionError, match="broken"):
        replica.join(60)
    assert "broken" in replica.unwell()


def test_a_port_that_is_taken_is_said(works):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(MisuseError, match=f"cannot serve controllers at {listen}"):
            ReplicaServer("r1", INSTANCE, listen, works)


def test_closing_ends_flows_and_sessions(serve, connect, works):
    replica = serve()
    one = connect(replica).begin(*WINDOW)
    one.wait_for(FlowState(1, FlowStatus.WARM, 0))
    replica.close()
    one.ended()
    assert works.last.closed
    assert replica.join(1)


def test_with_certificates_only_controllers_come_in(works, until):
    authority, stranger = trustme.CA(), trustme.CA()
    shown = authority.issue_cert("localhost", "127.0.0.1")
    certificates = Certificates(
        certificate=b"".join(one.bytes() for one in shown.cert_chain_pems),
        key=shown.private_key_pem.bytes(),
        authority=authority.cert_pem.bytes(),
    )
    replica = ReplicaServer("r1", INSTANCE, "127.0.0.1:0", works, certificates)

    def session(issuer):
        own = issuer.issue_cert("controller") if issuer is not None else None
        key = own.private_key_pem.bytes() if own is not None else None
        chain = own.cert_chain_pems[0].bytes() if own is not None else None
        trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes(), key, chain)
        channel = grpc.secure_channel(f"localhost:{replica.port}", trusted)
        return channel, Session(channel)

    try:
        for issuer in (None, stranger):
            channel, one = session(issuer)
            assert one.ended()[0] is grpc.StatusCode.UNAVAILABLE
            channel.close()
        channel, one = session(authority)
        one.begin().pong(1)
        channel.close()
    finally:
        replica.close()


def test_of_an_authority_with_roles_only_controllers_command(works):
    now = datetime.now(UTC)
    authority = new_authority(now)

    def shown(role):
        made = new_certificate(authority, role, ["localhost"], now)
        texts = (made.certificate, made.key, authority.certificate)
        return Certificates(*(text.encode() for text in texts))

    replica = ReplicaServer("r1", INSTANCE, "127.0.0.1:0", works, shown("replica"))

    def session(role):
        own = shown(role)
        trusted = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
        channel = grpc.secure_channel(f"localhost:{replica.port}", trusted)
        return channel, Session(channel)

    try:
        for role in ("operator", "viewer"):
            channel, one = session(role)
            assert one.ended()[0] is grpc.StatusCode.PERMISSION_DENIED
            channel.close()
        channel, one = session("controller")
        one.begin().pong(1)
        channel.close()
    finally:
        replica.close()


def test_a_certificate_that_cannot_be_used_is_said(works):
    wrong = Certificates(b"no", b"certificate", b"at all")
    with pytest.raises(MisuseError, match="cannot serve controllers"):
        ReplicaServer("r1", INSTANCE, "127.0.0.1:0", works, wrong)
