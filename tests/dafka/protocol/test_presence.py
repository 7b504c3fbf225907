"""Discovery: who is connected to, for how long, and what a tower makes of a beacon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.limits import PEERS_MAX
from dafka.model import Reach
from dafka.protocol.effects import Dropped
from dafka.protocol.events import PeerLeft, Woke
from dafka.protocol.presence import (
    RIVALS_MAX,
    TRIAL_MS,
    UNPROVED_MAX,
    Announce,
    Connect,
    ConnectAgain,
    ConnectionChanged,
    ConnectionLacking,
    ConnectionRefused,
    Disconnect,
    Heard,
    PresenceMachine,
    PresenceSettings,
    Refused,
    TowerAway,
    TowerBack,
    TwinHeard,
    tower_beacon,
)
from dafka.wire.beacon import NodeBeacon, TowerBeacon

SETTINGS = PresenceSettings(beacon_interval_ms=1_000, peer_timeout_ms=4_000)
TOWER = "tcp://127.0.0.1:5556"


def heard(beacon, tower=TOWER):
    return Heard(beacon, tower)


ME = NodeBeacon("ME", "127.0.0.1", 5_000)
ECHO = heard(TowerBeacon("ME", "tcp://127.0.0.1:5000"))
PEER = "tcp://127.0.0.1:6000"
YOU = heard(TowerBeacon("YOU", PEER))


@pytest.fixture
def presence():
    return PresenceMachine(ME, SETTINGS, [TOWER])


def live_through(presence, times, *beacons):
    """Wake at each time and hear the given beacons; returns who was left, and when."""
    left = []
    for now_ms in times:
        for event in beacons:
            presence.handle(event, now_ms)
        left += [
            (now_ms, e.endpoint)
            for e in presence.handle(Woke(), now_ms)
            if isinstance(e, Disconnect)
        ]
    return left


def test_it_announces_itself_at_once_and_at_an_interval(presence):
    assert presence.handle(Woke(), 0) == [Announce(ME)]
    assert presence.wakeup_ms() == 1_000
    assert presence.handle(Woke(), 999) == []
    assert presence.handle(Woke(), 1_000) == [Announce(ME)]


TWIN = heard(TowerBeacon("ME", "tcp://127.0.0.1:5001"))


def test_another_node_of_this_address_is_noticed_once(presence):
    said = [e for event in (ECHO, TWIN, ECHO, TWIN, ECHO) for e in presence.handle(event, 0)]
    assert said == [TwinHeard("tcp://127.0.0.1:5001")]


def test_who_moves_to_another_endpoint_is_no_twin(presence):
    other = heard(TowerBeacon("ME", "tcp://127.0.0.1:5001"), "tcp://127.0.0.1:7000")
    third = heard(TowerBeacon("ME", "tcp://127.0.0.1:5002"))
    assert [
        e for one in (ECHO, ECHO, other, TWIN, TWIN, third) for e in presence.handle(one, 0)
    ] == []


def test_a_new_peer_is_connected_to_and_told_of_us_at_once(presence):
    assert presence.handle(YOU, 0) == [Connect(PEER), Announce(ME)]
    assert presence.handle(YOU, 1) == []
    assert presence.peers == 1


def test_its_own_beacon_is_no_peer(presence):
    assert presence.handle(ECHO, 0) == []
    assert presence.peers == 0


def test_a_silent_peer_is_left_while_the_tower_is_heard(presence):
    presence.handle(YOU, 0)
    assert live_through(presence, range(0, 9_000, 1_000), ECHO) == [(4_000, PEER)]
    assert presence.peers == 0
    assert presence.handle(YOU, 9_000)[0] == Connect(PEER)


def test_a_peer_that_is_heard_stays(presence):
    assert live_through(presence, range(0, 20_000, 1_000), ECHO, YOU) == []


def test_nobody_is_left_while_the_tower_is_away(presence):
    live_through(presence, range(0, 3_000, 1_000), ECHO, YOU)
    assert live_through(presence, range(3_000, 60_000, 1_000)) == []
    assert presence.peers == 1


def test_when_the_tower_is_back_silence_counts_from_then(presence):
    live_through(presence, range(0, 3_000, 1_000), ECHO, YOU)
    live_through(presence, range(3_000, 60_000, 1_000))
    assert live_through(presence, range(60_000, 70_000, 1_000), ECHO) == [(64_000, PEER)]


def test_peers_are_bounded(presence):
    for number in range(PEERS_MAX + 5):
        presence.handle(heard(TowerBeacon(f"N{number}", f"tcp://127.0.0.1:{10_000 + number}")), 0)
    assert presence.peers == PEERS_MAX
    one_more = heard(TowerBeacon("X", "tcp://127.0.0.1:9"))
    assert presence.handle(one_more, 0) == [Dropped("too many peers")]


def test_a_tower_that_refuses_its_key_is_said_once_and_tried_again_until_it_is_heard(presence):
    def attempts(times):
        said = [(now_ms, one) for now_ms in times for one in presence.handle(Woke(), now_ms)]
        return [(now_ms, one) for now_ms, one in said if isinstance(one, ConnectAgain)]

    assert presence.handle(ConnectionRefused(TOWER), 0) == [Refused(TOWER, 10_000)]
    assert attempts(range(0, 60_000, 1_000)) == [(10_000, ConnectAgain(TOWER))]
    assert presence.handle(ConnectionRefused(TOWER), 60_000) == [], "said already"
    assert attempts(range(60_000, 90_000, 1_000)) == [(70_000, ConnectAgain(TOWER))]
    presence.handle(ConnectionRefused(TOWER), 90_000)
    presence.handle(ECHO, 91_000)
    assert attempts(range(91_000, 150_000, 1_000)) == []
    presence.check()


def test_a_peer_that_refuses_its_key_is_tried_with_the_key_that_it_has_to_prove(presence):
    presence.handle(heard(TowerBeacon("YOU", PEER, "k" * 40)), 0)
    presence.handle(ECHO, 0)
    assert presence.handle(ConnectionRefused(PEER), 0) == [Refused(PEER, 10_000)]
    presence.handle(Woke(), 9_000)
    assert presence.handle(ConnectionRefused("tcp://127.0.0.1:1"), 9_000) == [], "left before"
    presence.handle(heard(TowerBeacon("YOU", PEER, "k" * 40)), 9_000)
    presence.handle(ECHO, 9_000)
    assert ConnectAgain(PEER, "k" * 40) in presence.handle(Woke(), 10_000)
    presence.handle(ConnectionChanged(PEER, alive=True), 10_000)
    presence.check()
    assert presence.handle(ConnectionRefused(PEER), 11_000) == [Refused(PEER, 10_000)]


def guest(number):
    endpoint = f"tcp://127.0.0.1:{20_000 + number}"
    return heard(TowerBeacon(f"G{number}", endpoint, guest=True))


def node(number):
    return heard(TowerBeacon(f"N{number}", f"tcp://127.0.0.1:{10_000 + number}"))


def test_guests_have_the_room_that_others_leave():
    presence = PresenceMachine(ME, PresenceSettings(peers_max=3), [TOWER])
    for number in range(5):
        presence.handle(guest(number), 0)
    left = [Disconnect("tcp://127.0.0.1:20002"), PeerLeft("G2")]
    assert presence.handle(node(0), 0) == [*left, Connect("tcp://127.0.0.1:10000")]
    assert presence.handle(guest(2), 0) == [Dropped("too many peers")]
    for number in range(1, 3):
        presence.handle(node(number), 0)
        presence.check()
    assert presence.handle(node(3), 0) == [Dropped("too many peers")]
    assert presence.peers == 3


def test_a_guest_leaves_its_socket_to_who_is_none():
    presence = PresenceMachine(ME, PresenceSettings(), [TOWER])
    for one in (guest(0), guest(1), node(0)):
        presence.handle(one, 0)
    lacking = ConnectionLacking("tcp://127.0.0.1:10000")
    again = ConnectAgain("tcp://127.0.0.1:10000")
    for number in (1, 0):
        left = [Disconnect(f"tcp://127.0.0.1:{20_000 + number}"), PeerLeft(f"G{number}")]
        assert presence.handle(lacking, 0) == [*left, again]
    assert presence.handle(lacking, 0) == []
    assert presence.handle(ConnectionLacking("tcp://127.0.0.1:20001"), 0) == [], "left before"
    presence.check()


@pytest.mark.parametrize("peer", [guest(0), node(0)])
def test_a_peer_for_whom_there_was_no_socket_is_tried_again(peer):
    presence = PresenceMachine(ME, PresenceSettings(), [TOWER])
    endpoint = peer.beacon.endpoint
    tried = []
    for now_ms in range(0, 25_000, 1_000):
        presence.handle(ECHO, now_ms)
        for effect in (*presence.handle(peer, now_ms), *presence.handle(Woke(), now_ms)):
            if isinstance(effect, Connect | ConnectAgain):
                tried.append((now_ms, effect.endpoint))
                assert presence.handle(ConnectionLacking(endpoint), now_ms) == []
    assert tried == [(0, endpoint), (10_000, endpoint), (20_000, endpoint)]


def test_who_is_no_guest_any_more_is_not_left_for_another():
    presence = PresenceMachine(ME, PresenceSettings(peers_max=1), [TOWER])
    presence.handle(guest(0), 0)
    presence.handle(heard(TowerBeacon("G0", "tcp://127.0.0.1:20000")), 0)
    assert presence.handle(node(0), 0) == [Dropped("too many peers")]


def test_at_a_store_guests_are_peers_as_all_are():
    presence = PresenceMachine(ME, PresenceSettings(peers_max=1), [TOWER], store=True)
    presence.handle(guest(0), 0)
    assert presence.handle(node(0), 0) == [Dropped("too many peers")]


def test_a_guest_connects_to_nobody_who_says_that_he_is_this_one():
    """Any key filled its room for peers: a tower copies his beacons to who has that address."""
    presence = PresenceMachine(replace(ME, key="k" * 40), SETTINGS, [TOWER])
    for number in range(3):
        other = TowerBeacon("ME", f"tcp://127.0.0.1:{number + 1}", "o" * 40, echo=True)
        assert presence.handle(heard(other), 0) == []
    own = heard(TowerBeacon("ME", "tcp://127.0.0.1:5000", "k" * 40, echo=True))
    presence.handle(own, 0)
    presence.handle(Woke(), 2_500)
    assert (presence.peers, presence.handle(Woke(), 3_500)[1:]) == (0, []), "its tower is there"


@pytest.mark.parametrize(
    ("beacon", "peer_host", "endpoint"),
    [
        (NodeBeacon("A", "10.0.0.1", 5), "192.168.0.1", "tcp://10.0.0.1:5"),
        (NodeBeacon("A", "", 5), "127.0.0.1", "tcp://127.0.0.1:5"),
        (NodeBeacon("A", "", 5), "::1", "tcp://[::1]:5"),
        (NodeBeacon("A", "[::1]", 5), "", "tcp://[::1]:5"),
        (NodeBeacon("A", "db-1", 5), "10.0.0.1", "tcp://db-1:5"),
    ],
)
def test_a_tower_passes_on_where_a_node_can_be_reached(beacon, peer_host, endpoint):
    assert tower_beacon(beacon, peer_host) == TowerBeacon("A", endpoint)


@pytest.mark.parametrize(
    "beacon", [NodeBeacon("A", "", 5), NodeBeacon("A", "h", 0), NodeBeacon("A", "-", 5)]
)
def test_a_node_that_cannot_be_reached_is_not_passed_on(beacon):
    assert tower_beacon(beacon, "") is None


@pytest.mark.parametrize(
    ("endpoint", "reach", "told"),
    [
        ("inproc://A", Reach.PROCESS, True),
        ("inproc://A", Reach.MACHINE, False),
        ("ipc:///run/A", Reach.MACHINE, True),
        ("ipc:///run/A", Reach.NETWORK, False),
        ("ipc://A", Reach.PROCESS, False),
    ],
)
def test_a_tower_passes_on_what_all_who_hear_it_can_reach(endpoint, reach, told):
    beacon = tower_beacon(NodeBeacon("A", endpoint, 0), "10.0.0.1", reach)
    assert beacon == (TowerBeacon("A", endpoint) if told else None)


def test_a_peer_is_connected_to_with_its_key(presence):
    proved = heard(TowerBeacon("YOU", PEER, "k" * 40))
    assert presence.handle(proved, 0)[0] == Connect(PEER, "k" * 40)


OWN, FORGED, OTHER = "k" * 40, "f" * 40, "o" * 40


def told(key):
    return heard(TowerBeacon("YOU", PEER, key))


def tried(presence, keys, times):
    """The keys that are tried at the peer's endpoint while beacons with these keep coming."""
    return [
        effect.key
        for now_ms in times
        for key in keys
        for effect in presence.handle(told(key), now_ms)
        if isinstance(effect, Connect)
    ]


def test_a_key_that_is_not_proved_makes_room_for_another(presence):
    turns = range(0, 3 * TRIAL_MS, TRIAL_MS // 10)
    assert tried(presence, [FORGED, OWN], turns) == [FORGED, OWN, FORGED]
    presence.check()


def test_every_key_has_its_turn_however_many_others_come(presence):
    turns = range(0, 6 * TRIAL_MS, 10)
    found = tried(presence, [FORGED, OTHER, OWN], turns)
    assert sorted(found[:3]) == sorted([FORGED, OTHER, OWN])
    assert sorted(found) == sorted([FORGED, OTHER, OWN] * 2)


def test_a_proved_key_keeps_its_place_and_for_a_while_when_its_connection_is_gone(presence):
    presence.handle(told(OWN), 0)
    presence.handle(ConnectionChanged(PEER, True), 10)
    assert tried(presence, [FORGED], range(0, 10 * TRIAL_MS, 1_000)) == []
    gone_ms = 10 * TRIAL_MS
    presence.handle(ConnectionChanged(PEER, False), gone_ms)
    assert tried(presence, [FORGED, OWN], range(gone_ms, gone_ms + TRIAL_MS, 100)) == []
    assert tried(presence, [FORGED], [gone_ms + TRIAL_MS]) == [FORGED]


def test_attempts_that_fail_are_no_sign_of_life(presence):
    presence.handle(told(FORGED), 0)
    for now_ms in range(0, TRIAL_MS, 50):
        presence.handle(ConnectionChanged(PEER, False), now_ms)
    assert tried(presence, [OWN], [TRIAL_MS]) == [OWN]
    assert live_through(presence, range(TRIAL_MS, TRIAL_MS + 9_000, 1_000), ECHO) == [
        (TRIAL_MS + 4_000, PEER)
    ]


def test_the_rivals_for_an_endpoint_are_bounded(presence):
    keys = [f"{number:040}" for number in range(3 * RIVALS_MAX)]
    tried(presence, keys, range(0, 100 * TRIAL_MS, TRIAL_MS))
    presence.check()


def test_what_one_key_announces_and_does_not_prove_is_bounded(presence):
    def announced(number, key):
        return heard(TowerBeacon("N", f"tcp://127.0.0.1:{7_000 + number}", key))

    for number in range(UNPROVED_MAX):
        presence.handle(announced(number, FORGED), 0)
    assert presence.handle(announced(UNPROVED_MAX, FORGED), 0) == [Dropped("too many peers")]
    assert presence.handle(told(OWN), 0)[0] == Connect(PEER, OWN)
    presence.handle(ConnectionChanged("tcp://127.0.0.1:7000", True), 0)
    assert presence.handle(announced(UNPROVED_MAX, FORGED), 0)


def test_of_a_key_whose_nodes_are_not_reached_the_one_tried_longest_makes_room(presence):
    """As long as they were announced no other node of that key was connected to."""

    def announced(number):
        return heard(TowerBeacon(f"N{number}", f"tcp://127.0.0.1:{7_000 + number}", FORGED))

    for now_ms in (0, 1_000, TRIAL_MS - 1):
        for number in range(UNPROVED_MAX):
            presence.handle(announced(number), now_ms + (number > 0))
    left = [Disconnect("tcp://127.0.0.1:7000"), PeerLeft("N0")]
    connect = Connect("tcp://127.0.0.1:7256", FORGED)
    assert presence.handle(announced(UNPROVED_MAX), TRIAL_MS)[:3] == [*left, connect]
    assert presence.handle(announced(0), TRIAL_MS) == [Dropped("too many peers")]
    presence.check()


def test_its_own_address_under_another_key_is_somebody_else(presence):
    forged = heard(TowerBeacon("ME", PEER, "k" * 40))
    assert presence.handle(forged, 0)[0] == Connect(PEER, "k" * 40)


def test_a_tower_passes_the_key_on():
    beacon = tower_beacon(NodeBeacon("YOU", "10.0.0.1", 7, "k" * 40), "")
    assert beacon == TowerBeacon("YOU", "tcp://10.0.0.1:7", "k" * 40)


def test_a_silent_peer_stays_while_its_connection_lives(presence):
    presence.handle(YOU, 0)
    presence.handle(ConnectionChanged(PEER, True), 0)
    assert live_through(presence, range(0, 60_000, 1_000), ECHO) == []
    presence.handle(ConnectionChanged(PEER, False), 60_000)
    assert live_through(presence, range(60_000, 70_000, 1_000), ECHO) == [(64_000, PEER)]


def test_a_connection_that_comes_again_in_time_keeps_its_peer(presence):
    presence.handle(YOU, 0)
    presence.handle(ConnectionChanged(PEER, True), 0)
    presence.handle(ConnectionChanged(PEER, False), 59_000)
    assert live_through(presence, range(59_000, 62_000, 1_000), ECHO) == []
    presence.handle(ConnectionChanged(PEER, True), 62_000)
    assert live_through(presence, range(62_000, 90_000, 1_000), ECHO) == []


def test_a_connection_nobody_asked_for_is_no_peer(presence):
    presence.handle(ConnectionChanged(PEER, True), 0)
    assert presence.peers == 0


def test_while_the_tower_is_away_a_peer_without_a_connection_is_waited_for_not_for_ever(presence):
    presence.handle(YOU, 0)
    presence.handle(ConnectionChanged(PEER, True), 0)
    presence.handle(ConnectionChanged(PEER, False), 10_000)
    assert live_through(presence, range(10_000, 200_000, 1_000)) == [(70_000, PEER)]


def test_with_two_towers_one_is_enough_to_leave_a_peer_that_is_gone():
    presence = PresenceMachine(ME, SETTINGS, [TOWER, "other"])
    presence.handle(YOU, 0)
    assert live_through(presence, range(0, 9_000, 1_000), ECHO) == [(4_000, PEER)]


def notices(presence, times, *beacons):
    """What is said of towers, and when."""
    said = []
    for now_ms in times:
        for event in beacons:
            said += [(now_ms, e) for e in presence.handle(event, now_ms)]
        said += [(now_ms, e) for e in presence.handle(Woke(), now_ms)]
    return [(now_ms, e) for now_ms, e in said if isinstance(e, TowerAway | TowerBack)]


def test_a_tower_is_told_of_once_when_it_is_not_heard_and_when_it_is_back(presence):
    assert notices(presence, range(0, 20_000, 1_000)) == [(2_000, TowerAway(TOWER, 0))]
    assert notices(presence, range(20_000, 24_000, 1_000), ECHO) == [(20_000, TowerBack(TOWER))]
    assert notices(presence, range(24_000, 60_000, 1_000)) == [(27_000, TowerAway(TOWER, 0))]


def test_of_a_tower_that_is_heard_nothing_is_said(presence):
    assert notices(presence, range(0, 60_000, 1_000), ECHO) == []


def test_each_tower_is_told_of_by_itself():
    presence = PresenceMachine(ME, SETTINGS, [TOWER, "other"])
    echo = heard(TowerBeacon("ME", "tcp://127.0.0.1:5000"), "other")
    assert notices(presence, range(0, 9_000, 1_000), echo) == [(2_000, TowerAway(TOWER, 1))]


def test_newcomers_together_are_answered_once(presence):
    presence.handle(Woke(), 0)
    announced = []
    for number in range(200):
        beacon = TowerBeacon(f"N{number}", f"tcp://127.0.0.1:{10_000 + number}")
        announced += [e for e in presence.handle(heard(beacon), 1) if isinstance(e, Announce)]
    # With one peer at once; the others wait for each other, at most for the interval.
    assert announced == [Announce(ME)]
    assert presence.wakeup_ms() <= 1_001
    assert presence.handle(Woke(), 1_001) == [Announce(ME)]


def test_nobody_is_at_its_own_endpoint(presence):
    stale = heard(TowerBeacon("HE", "tcp://127.0.0.1:5000"))
    assert presence.handle(stale, 0)[0] == Connect("tcp://127.0.0.1:5000")
    left = [Disconnect("tcp://127.0.0.1:5000"), PeerLeft("HE")]
    assert presence.handle(ECHO, 1) == left
    assert presence.handle(stale, 2) == []
    assert presence.peers == 0


def test_who_announces_a_peer_under_this_nodes_address_does_not_part_them(presence):
    """Without keys anybody may; the peer was left, and not heard until this node's own echo."""
    presence.handle(ECHO, 0)
    presence.handle(YOU, 0)
    presence.handle(ConnectionChanged(PEER, True), 10)
    forged = heard(TowerBeacon("ME", PEER))
    assert presence.handle(forged, 20) == []
    assert presence.peers == 1
    assert notices(presence, range(1_000, 9_000, 1_000), forged)[0][1] == TowerAway(TOWER, 0)


def test_who_is_at_its_own_endpoint_has_left_where_it_was_connected_to(presence):
    at_other_host = "tcp://127.0.0.2:5000"
    presence.handle(heard(TowerBeacon("YOU", at_other_host)), 0)
    presence.handle(ConnectionChanged(at_other_host, True), 10)
    left = [Disconnect(at_other_host), PeerLeft("YOU")]
    assert presence.handle(heard(TowerBeacon("ME", at_other_host)), 20) == left


@pytest.mark.parametrize("at", ["inproc://a", "ipc:///run/a"])
def test_a_node_that_is_not_reached_by_tcp_is_at_its_endpoint_only(at):
    presence = PresenceMachine(NodeBeacon("ME", at, 0), SETTINGS, [TOWER])
    presence.handle(heard(TowerBeacon("YOU", at + "b")), 0)
    assert presence.handle(heard(TowerBeacon("ME", at + "b")), 0) == []
    presence.handle(heard(TowerBeacon("ME", at)), 0)
    assert presence.handle(heard(TowerBeacon("OLD", at)), 0) == []
    assert presence.peers == 1


def test_a_peer_too_many_is_counted(presence):
    for number in range(PEERS_MAX):
        presence.handle(heard(TowerBeacon(f"N{number}", f"tcp://127.0.0.1:{10_000 + number}")), 0)
    assert presence.handle(YOU, 0) == [Dropped("too many peers")]


def test_who_has_no_connection_any_more_has_left_and_who_never_had_one_when_it_is_given_up(
    presence,
):
    presence.handle(YOU, 0)
    presence.handle(heard(TowerBeacon("INSIDE", "inproc://a")), 0)
    presence.handle(ConnectionChanged(PEER, True), 10)
    assert presence.handle(ConnectionChanged(PEER, False), 20) == [PeerLeft("YOU")]
    gone = [one for one in presence.handle(Woke(), 61_000) if isinstance(one, PeerLeft)]
    assert gone == [PeerLeft("YOU"), PeerLeft("INSIDE")]


def test_for_an_address_that_is_not_its_keys_nobody_leaves(presence):
    """A node of any key could call itself a store and then otherwise: its ACKs counted no more."""
    for name in ("STORE", "OTHER", "STORE"):
        forged = Heard(TowerBeacon(name, PEER, FORGED), TOWER, of_key=False)
        assert not any(isinstance(one, PeerLeft) for one in presence.handle(forged, 0))
    presence.handle(ConnectionChanged(PEER, True), 10)
    assert presence.handle(ConnectionChanged(PEER, False), 20) == []


def test_a_node_that_copies_from_elsewhere_hears_itself_under_its_address_there():
    presence = PresenceMachine(NodeBeacon("ME", "127.0.0.1", 5_000, OWN), SETTINGS, [TOWER])
    echo = Heard(TowerBeacon("ME", "tcp://127.0.0.1:5000", OWN), TOWER, of_key=False)
    assert notices(presence, range(0, 9_000, 1_000), echo) == []
    assert presence.peers == 0


def test_who_is_replaced_at_its_endpoint_has_left(presence):
    presence.handle(YOU, 0)
    presence.handle(ConnectionChanged(PEER, True), 10)
    other = heard(TowerBeacon("YOU, without its disk", PEER))
    assert presence.handle(other, 20) == [PeerLeft("YOU")]
    assert presence.handle(other, 30) == []
