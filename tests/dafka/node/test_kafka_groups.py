"""What Kafka groups commit, at gateways in front of real stores, without Kafka's wire."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from dafka.gateway.broker import ErrorCode, KafkaCommit, KafkaPartition
from dafka.groups.commit import Commit, CommitKey
from dafka.model import Partition
from dafka.node.committer import Committer
from dafka.node.gateway import GatewayNode
from dafka.query.client import StoreClient
from tests.support.gateways import ORDERS, appended, batch_of, compared, die, made, topic_of, until
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]

OTHERS = KafkaPartition("orders", 1)
GROUP = "billing"


class Site:
    """A cluster of some stores, and gateways in this process."""

    def __init__(self, cluster, free_ports, stores):
        self.cluster = cluster
        self.place, _ = cluster.place(None, {"stores": cluster.queries})
        self.stores = [cluster.store(number) for number in range(stores)]
        self.opened = []
        self._free_ports = free_ports

    def gateway(self):
        self.opened.append(GatewayNode(self.place, "127.0.0.1", self._free_ports(1)))
        return self.opened[-1]

    def commit(self, *commits):
        """Commit as a link does, or members of a Dafka group."""
        committer = Committer(self.place, 30)
        try:
            committer.write(commits)
        finally:
            committer.close()

    def held(self, group=GROUP):
        """What the first store holds: positions of our partitions."""
        with StoreClient(self.cluster.query) as store:
            return {
                place: commit.position
                for place, commit in store.offsets(group).items()
                if place.topic == "orders"
            }

    def close(self):
        for gateway in self.opened:
            gateway.close()
        self.cluster.close()


@pytest.fixture
def make_site(tmp_path, free_ports, reopened):
    sites = []

    def make(stores=1):
        cluster = SmallCluster(tmp_path, free_ports, reopened, stores=stores)
        cluster.start_tower()
        sites.append(Site(cluster, free_ports, stores))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


async def epoch_of(broker, group=GROUP):
    """The epoch of its ownership, once it coordinates the group."""

    async def coordinates():
        there = broker.coordinator(group)
        return there if there.node == broker.node else None

    return (await until(coordinates)).epoch


async def commit(broker, offsets, group=GROUP):
    return await broker.commit(group, await epoch_of(broker, group), offsets)


async def committed(broker, group=GROUP):
    """What it has committed, once that is known."""

    async def known():
        found = await broker.committed(group)
        waits = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
        return None if found in waits else (found,)

    (found,) = await until(known)
    return found


@pytest.mark.parametrize("stores", [1, 3])
def test_what_a_group_commits_it_is_told(make_site, stores):
    site = make_site(stores)
    broker = site.gateway()

    async def scenario():
        await made(broker, "orders", 2)
        await appended(broker, ORDERS, batch_of(b"a", b"b"))
        assert await committed(broker) == {}
        wanted = {ORDERS: KafkaCommit(1, metadata="mine"), OTHERS: KafkaCommit(0)}
        assert await commit(broker, wanted) is ErrorCode.NONE
        assert await committed(broker) == wanted
        assert await commit(broker, {ORDERS: KafkaCommit(2)}) is ErrorCode.NONE
        assert await committed(broker) == wanted | {ORDERS: KafkaCommit(2)}
        assert await commit(broker, {OTHERS: None}) is ErrorCode.NONE
        assert await committed(broker) == {ORDERS: KafkaCommit(2)}
        assert await commit(broker, {}) is ErrorCode.NONE
        late = await broker.commit(GROUP, await epoch_of(broker) + 1, wanted)
        assert late is ErrorCode.NOT_COORDINATOR

    asyncio.run(scenario())


def test_what_nobody_can_keep_is_refused(make_site):
    broker = make_site().gateway()

    async def scenario():
        refused = await commit(broker, {ORDERS: KafkaCommit(1, metadata="x" * 5_000)})
        assert refused is ErrorCode.INVALID_REQUEST
        assert await commit(broker, {ORDERS: KafkaCommit(-1)}) is ErrorCode.INVALID_REQUEST
        assert await committed(broker) == {}

    asyncio.run(scenario())


def test_groups_are_listed_and_forgotten(make_site):
    broker = make_site().gateway()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))
        for group in ("billing", "audit"):
            assert await commit(broker, {ORDERS: KafkaCommit(1)}, group) is ErrorCode.NONE

        async def listed():
            return await broker.groups() == ["billing", "audit"]

        await until(listed)
        assert await broker.forget_group("audit") is ErrorCode.NONE
        assert await broker.groups() == ["billing"]
        assert await committed(broker, "audit") == {}
        assert await broker.forget_group("audit") is ErrorCode.GROUP_ID_NOT_FOUND
        assert await committed(broker) == {ORDERS: KafkaCommit(1)}

    asyncio.run(scenario())


def test_a_commit_that_too_few_stores_take_is_not_acknowledged(make_site):
    site = make_site(3)
    broker = site.gateway()

    async def scenario():
        await made(broker, "orders", 1)
        assert await commit(broker, {ORDERS: KafkaCommit(1)}) is ErrorCode.NONE
        await compared(broker)
        site.stores[0].close()
        assert await commit(broker, {ORDERS: KafkaCommit(2)}) is ErrorCode.NONE
        assert await committed(broker) == {ORDERS: KafkaCommit(2)}
        site.stores[1].close()
        assert await commit(broker, {ORDERS: KafkaCommit(3)}) in (
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.NOT_COORDINATOR,
        )
        site.stores[1:2] = [site.cluster.store(1)]
        assert await commit(broker, {ORDERS: KafkaCommit(4)}) is ErrorCode.NONE
        assert await committed(broker) == {ORDERS: KafkaCommit(4)}

    asyncio.run(scenario())


@pytest.mark.parametrize("stores", [1, 3])
def test_another_gateway_goes_on_where_the_coordinator_died(make_site, stores):
    site = make_site(stores)
    first = site.gateway()

    async def before():
        await made(first, "orders", 1)
        await appended(first, ORDERS, batch_of(b"a", b"b", b"c"))
        assert await commit(first, {ORDERS: KafkaCommit(2)}) is ErrorCode.NONE
        return await epoch_of(first)

    epoch = asyncio.run(before())
    die(first)
    second = site.gateway()

    async def after():
        await until(partial(topic_of, second, "orders"))
        assert await committed(second) == {ORDERS: KafkaCommit(2)}
        assert await epoch_of(second) > epoch
        assert await commit(second, {ORDERS: KafkaCommit(1)}) is ErrorCode.NONE
        assert await committed(second) == {ORDERS: KafkaCommit(1)}

    asyncio.run(after())


def test_gateways_say_the_same_of_who_coordinates(make_site):
    site = make_site()
    brokers = [site.gateway(), site.gateway()]
    names = [f"group-{number}" for number in range(50)]

    async def agreed():
        told = [{broker.coordinator(name).node for broker in brokers} for name in names]
        return all(len(one) == 1 for one in told) and len(set.union(*told)) == 2

    async def scenario():
        await until(agreed)
        for name in names[:5]:
            (mine,) = [one for one in brokers if one.node == one.coordinator(name).node]
            (other,) = [one for one in brokers if one is not mine]
            assert await other.committed(name) is ErrorCode.NOT_COORDINATOR
            assert await other.forget_group(name) is ErrorCode.NOT_COORDINATOR
            epoch = other.coordinator(name).epoch
            refused = await other.commit(name, epoch, {ORDERS: KafkaCommit(1)})
            assert refused is ErrorCode.NOT_COORDINATOR
            assert await commit(mine, {ORDERS: KafkaCommit(1)}, name) is ErrorCode.NONE

    asyncio.run(scenario())


def test_an_offset_becomes_positions_and_positions_become_an_offset(make_site):
    site = make_site()
    broker = site.gateway()
    natives = [site.cluster.producer(linger_ms=0) for _ in range(2)]
    places = [Partition("orders", native.address) for native in natives]

    async def scenario():
        await made(broker, "orders", 1)
        for end, native in enumerate((*natives, natives[0]), 1):
            native.send("orders", b"x")
            native.flush(30)
            await until(partial(shown, broker, end))
        assert await commit(broker, {ORDERS: KafkaCommit(2)}) is ErrorCode.NONE
        await until(partial(holds, site, dict.fromkeys(places, 1)))
        assert await commit(broker, {ORDERS: KafkaCommit(1)}) is ErrorCode.NONE
        await until(partial(holds, site, {places[0]: 1, places[1]: 0}))
        # Members of a Dafka group have taken over, in an epoch above.
        moved = Commit(2, 1_000, 5), Commit(0, 1_000, 5)
        keys = [CommitKey(GROUP, place) for place in places]
        site.commit(*zip(keys, moved, strict=True))
        assert await committed(broker) == {ORDERS: KafkaCommit(1)}
        site.commit((keys[1], Commit(1, 1_000, 6)))
        assert await committed(broker) == {ORDERS: KafkaCommit(3)}
        # And a Kafka group after them.
        assert await commit(broker, {ORDERS: KafkaCommit(2)}) is ErrorCode.NONE
        assert await committed(broker) == {ORDERS: KafkaCommit(2)}
        await until(partial(holds, site, dict.fromkeys(places, 1)))

    asyncio.run(scenario())


async def shown(broker, end):
    offsets = broker.offsets(ORDERS)
    return not isinstance(offsets, ErrorCode) and offsets.end == end


async def holds(site, positions):
    return site.held() == positions


def test_a_group_with_live_dafka_members_is_not_forgotten(make_site):
    site = make_site()
    broker = site.gateway()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))
        member = site.cluster.consumer(
            "orders", stores=site.cluster.queries, group=GROUP, start="earliest"
        )
        assert member.poll(120).value == b"a"
        assert await commit(broker, {ORDERS: KafkaCommit(1)}) is ErrorCode.NONE
        assert await broker.forget_group(GROUP) is ErrorCode.NON_EMPTY_GROUP

    asyncio.run(scenario())
