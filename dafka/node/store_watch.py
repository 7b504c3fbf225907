"""What a gateway asks of one store, in a thread of its own: a store that is away holds up nobody.

Once a second: what has changed, which repairs what was not heard, and what groups have committed.
When a partition is taken over: its ledger, and its records.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.gateway.catalog import CATALOG, CHANGES, TOPICS
from dafka.gateway.effects import (
    CatalogRead,
    CommitsTold,
    HearAgain,
    LedgersRead,
    Looked,
    LookSoon,
    ReadLedger,
    StoreTold,
)
from dafka.gateway.lines import LEDGER
from dafka.groups.commit import TOPIC as COMMITS
from dafka.groups.commit_reader import CommitReader, committed
from dafka.node.catching_up import CatchingUp
from dafka.node.ledgers import TOGETHER, read_catalog, read_ledgers
from dafka.process.clock import CLOCK
from dafka.protocol.events import PeerLeft
from dafka.query.client import LOOK_TIMEOUT_MS, StoreClient
from dafka.transport.request import QueryClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.cluster import Cluster
    from dafka.gateway.broker import KafkaPartition, Topic
    from dafka.gateway.effects import GatewayEvent
    from dafka.model import Partition
    from dafka.process.clock import Clock
    from dafka.storage.log import Mark
    from dafka.transport.request import ConnectClient

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks at what has changed."""

SOON_S = 0.02
"""Before a look that somebody waits for: more may want one meanwhile."""

AGAIN_S = 0.2
"""Before a store that has not answered is asked again."""


COMPARE_MS = 5_000
"""Between two comparisons of a store that has a new disk with the others."""


class StoreWatch:
    """Follows one store.

    Args:
        endpoint: Its query port.
        cluster: Whose it is.
        topics: What Kafka clients see at present, or saw; asked in this thread.
        post: Takes what is found to the gateway's node.
        look_s: Between two looks at what has changed.
        connect: Makes connections to stores.
        clock: The gateway's.
    """

    def __init__(
        self,
        endpoint: str,
        cluster: Cluster,
        topics: Callable[[], Mapping[str, Topic]],
        post: Callable[[GatewayEvent | Looked], None],
        look_s: float = LOOK_S,
        connect: ConnectClient = QueryClient,
        clock: Clock = CLOCK,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = cluster.credentials
        self._topics = topics
        self._post, self._look_s = post, look_s
        self._asked: queue.SimpleQueue[ReadLedger | LookSoon | None] = queue.SimpleQueue()
        self._wanted: dict[KafkaPartition, ReadLedger] = {}
        """What has to be read, and is not yet."""
        self._tokens: list[int] = []
        """Of those who wait for a look."""
        self._store = ""
        """What the store calls itself."""
        self.new = False
        """Whether its disk is."""
        self._connect, self._now_ms = connect, clock.now_ms
        others = [store for store in cluster.stores if store != endpoint]
        self._catching_up = CatchingUp(
            others, cluster.credentials, partial(StoreClient, connect=connect)
        )
        self._compare_due_ms = 0
        self._mark: Mark | None = None
        self._again = False
        """Whether all is to be told again."""
        self._read: dict[Partition, int] = {}
        """How far each controller's word is read."""
        self._commits: CommitReader | None = None
        self._committing = True
        """Whether there may be commits that are not read yet."""
        self.away = False
        """Whether the store does not answer."""
        self.told = False
        """Whether it has said once what there is."""
        self._failure: BaseException | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="dafka-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask(self, wanted: ReadLedger | LookSoon | HearAgain) -> None:
        """Read a partition as soon as the store answers, or only look at what has changed.

        Or, if this is the store that is meant, tell all again of what is there.
        """
        if isinstance(wanted, HearAgain):
            self._again = self._again or wanted.store == self._store
        else:
            self._asked.put(wanted)

    def close(self) -> None:
        """End; a question that is under way is waited for."""
        self._stopping = True
        self._asked.put(None)
        self._thread.join(2 * LOOK_TIMEOUT_MS / 1_000)

    def unwell(self) -> str:
        """Why it has ended, for people; empty if it has not."""
        return "" if self._failure is None else f"a store is not followed: {self._failure}"

    def _main(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self._failure = error
            log.critical("a store is not followed any more", exc_info=True)

    def _follow(self) -> None:
        with self.client() as client:
            wait_s = 0.0
            while not self._stopping:
                self._wait(wait_s)
                wait_s = self.step(client)

    def client(self) -> StoreClient:
        """Make what it asks the store by."""
        return StoreClient(self._endpoint, LOOK_TIMEOUT_MS, self._credentials, self._connect)

    def _wait(self, wait_s: float) -> None:
        """Wait for something to read, or to look for."""
        with suppress(queue.Empty):
            asked = self._asked.get(timeout=wait_s) if wait_s else self._asked.get_nowait()
            if isinstance(asked, LookSoon):
                time.sleep(SOON_S)
            self._note_wanted(asked)

    def _note_wanted(self, asked: ReadLedger | LookSoon | None) -> None:
        if isinstance(asked, ReadLedger):
            self._wanted[asked.partition] = asked
        elif asked is not None and asked.token:
            self._tokens.append(asked.token)

    def step(self, client: StoreClient) -> float:
        """Take in all that is wanted, and look once; returns for how many seconds to wait then."""
        with suppress(queue.Empty):
            while True:
                self._note_wanted(self._asked.get_nowait())
        try:
            self._look(client)
        except QueryError as error:
            self._mark = None  # what it had begun to tell is told from the beginning
            self._note(error)
            return AGAIN_S
        for token in self._tokens:
            self._post(Looked(token))
        self._tokens.clear()
        self._note(None)
        self.told = True
        return 0.0 if self._wanted else self._look_s

    def _look(self, client: StoreClient) -> None:
        if self._again:
            self._again, self._mark = False, None
        told = None if self._mark is None else client.changes(self._mark)
        forgotten: list[Partition] = []
        if told is None:
            kept = self._begin(client)
        else:
            changed, self._mark = told
            kept = {place: there for place, there in changed.items() if there is not None}
            forgotten = [place for place in changed if place not in kept]
        self._read_catalog(client, kept)
        topics = self._topics()
        ours = {
            place: there
            for place, there in kept.items()
            if place.topic in topics or place.topic in (LEDGER, TOPICS, CHANGES)
        }
        unlisted = tuple(place for place in forgotten if place.topic in topics)
        if ours or unlisted:
            self._post(StoreTold(self._store, ours, unlisted))
        self._read_ledgers(client, topics)
        now_ms = self._now_ms()
        if self.new and now_ms >= self._compare_due_ms:
            self._compare_due_ms = now_ms + COMPARE_MS
            known = (CATALOG, COMMITS, LEDGER, TOPICS, CHANGES, *topics)
            self.new = not self._catching_up.look(client, self._store, known, now_ms)
            if not self.new:
                self._follow_commits(client)  # those of a new disk did not count
        self._committing = self._committing or any(place.topic == COMMITS for place in kept)
        if self._committing:
            self._read_commits(client)

    def _begin(self, client: StoreClient) -> dict[Partition, range]:
        """It is not known what has changed: look at everything."""
        health = client.health()
        if self._store not in ("", health.identity):
            # Before that is said of the new disk, maybe sooner than its connection is gone.
            self._post(PeerLeft(self._store))
        self._store, self.new = health.identity, health.new
        told = client.changes(None)
        self._mark = None if told is None else told[1]
        kept: dict[Partition, range] = {}
        for topic in (CATALOG, LEDGER, TOPICS, CHANGES, *self._topics()):
            kept |= client.ranges(topic)
        self._follow_commits(client)
        return kept

    def _follow_commits(self, client: StoreClient) -> None:
        self._commits = CommitReader(client, whole_interval_ms=None)
        self._committing = True

    def _read_catalog(self, client: StoreClient, kept: Mapping[Partition, range]) -> None:
        for place, there in kept.items():
            if place.topic == CATALOG:
                start = max(there.start, self._read.get(place, 0))
                states = read_catalog(client, place, start, there.stop)
                self._read[place] = there.stop
                self._post(CatalogRead(tuple(states)))

    def _read_ledgers(self, client: StoreClient, topics: Mapping[str, Topic]) -> None:
        """Some of those that are wanted; the others at once afterwards, in the next look.

        Of thousands a store that is slow for a moment is asked for a few hundred again.
        """
        wanted = [*islice(self._wanted.values(), TOGETHER)]
        if wanted:
            self._post(LedgersRead(read_ledgers(client, wanted, topics)))
            for one in wanted:
                del self._wanted[one.partition]

    def _read_commits(self, client: StoreClient) -> None:
        """What is new says of which groups; what holds of these, the store says."""
        assert self._commits is not None
        commits, whole = self._commits.read(self._now_ms())
        if not whole:
            news = {key.group for key, _ in commits}
            commits = list(committed(client, sorted(news)).items())
        if commits or whole:
            self._post(CommitsTold(self._store, commits, whole, self.new))
        self._committing = bool(commits)

    def _note(self, error: QueryError | None) -> None:
        if self.away != (error is not None):
            self.away = error is not None
            says = "store answers" if error is None else f"store is asked again: {error}"
            log.warning(says, extra={"store": self._endpoint})
