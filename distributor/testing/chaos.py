"""Random trees of real processes, broken at random, and every record read back: by seed.

python -m distributor.testing.chaos --seed 17 --rounds 50

A round breaks one to three processes at once, under load on every cluster: killed with signal 9,
stopped for some seconds, not heard by other clusters or not hearing them, a store's disk that takes
no more, a store's disk that is gone. Then all is mended, and within a bound every cluster has to
have what any of them had. Each tree has some
rounds; at its end every store of it is read, and every record looked for by its number.

What a disk had that is gone others must have first: to lose an only copy is no fault of ours.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dafka.process.logs import set_up_logs
from distributor.demo import drill, job
from distributor.local.processes import is_taken, processes_of
from distributor.local.supervisor import Supervisor
from distributor.testing.proxy import Proxy, behind_proxy, deaf, processes_running, unheard
from topology import load, plan
from topology.model import Branch, StoreSpec
from topology.output import Columns, column, number, open_console, table
from topology.processes import ProcessKind
from topology.render import render_text
from topology.terminal import say
from topology.testing import random_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distributor.local.supervisor import Child
    from topology.model import Topology, Tree

ROUNDS_A_TREE = 10
"""So many rounds a tree has before another one is grown."""

CLUSTERS_MAX = 4
"""More processes than some thirty would measure the machine."""

RATE = 100
"""Records a second on each cluster."""

HEAL_S_MAX = 90.0
"""Within this every cluster has what any had: a failover, a repair for each hop, starts."""

_FRONTS = {f"127.0.1.{place}": f"127.0.0.{place}" for place in range(11, 11 + CLUSTERS_MAX)}
"""Where the proxy listens before each cluster."""

_LINKS = {"failover_after_ms": 3_000, "repair_after_ms": 4_000}
_PORTS_EACH = 10


class FaultKind(Enum):
    """What is done to a process."""

    KILL = "killed"
    STOP = "stopped"
    UNHEARD = "not heard elsewhere"
    DEAF = "hears nobody elsewhere"
    FULL = "disk full"
    EMPTY = "disk gone"


@dataclass(frozen=True, slots=True)
class ChaosFault:
    """One of a round.

    Attributes:
        kind: What.
        process: To whom.
        seconds: For how long, where it is not over at once.
    """

    kind: FaultKind
    process: str
    seconds: float

    def __str__(self) -> str:
        at_once = self.kind in (FaultKind.KILL, FaultKind.EMPTY)
        return f"{self.process} {self.kind.value}" + ("" if at_once else f" {self.seconds:.0f} s")


@dataclass(frozen=True, slots=True)
class ChaosRound:
    """What came of a round; `healed_s` is None if it did not heal in time."""

    seed: int
    place: int
    faults: tuple[ChaosFault, ...]
    healed_s: float | None


def drawn(
    chance: random.Random, stores: Sequence[str], others: Sequence[str]
) -> tuple[ChaosFault, ...]:
    """Draw the faults of a round: each of another process.

    Args:
        chance: Where they come from.
        stores: Names of stores of clusters with several: one of them may lose its disk.
        others: Names of all processes that do something, those stores too.
    """
    chosen = chance.sample(sorted(others), chance.randint(1, min(3, len(others))))
    faults, gone = [], False
    for process in chosen:
        kinds = [FaultKind.KILL, FaultKind.STOP, FaultKind.STOP, FaultKind.UNHEARD, FaultKind.DEAF]
        if "-store-" in process:
            kinds.append(FaultKind.FULL)
        if process in stores and not gone:
            kinds += [FaultKind.EMPTY, FaultKind.EMPTY]
        kind = chance.choice(kinds)
        gone = gone or kind is FaultKind.EMPTY
        faults.append(ChaosFault(kind, process, round(chance.uniform(1.0, 7.0), 1)))
    return tuple(faults)


def grown(chance: random.Random, directory: Path, first_port: int) -> dict[str, Any]:
    """Draw a topology, as its file says it."""
    topology = random_topology(chance, chance.randint(2, CLUSTERS_MAX))
    return {
        "version": 1,
        "name": "chaos",
        "control": {},
        "links": _LINKS,
        "clusters": [
            {
                "name": one.name,
                "id": one.id,
                "host": behind,
                "advertise": front,
                "towers": [f"tcp://{front}:{first_port + _PORTS_EACH * place}"],
                "stores": [
                    {
                        "query": f"tcp://{front}:{first_port + _PORTS_EACH * place + 2 + store}",
                        "data": str(directory / f"{one.name}-{store + 1}"),
                    }
                    for store in range(chance.randint(1, 2))
                ],
            }
            for place, (one, (front, behind)) in enumerate(
                zip(topology.clusters, _FRONTS.items(), strict=False)
            )
        ],
        "tree": _written(topology.tree),
    }


def _written(tree: Tree) -> object:
    if not isinstance(tree, Branch):
        return tree
    return {"level": tree.level, "children": [_written(child) for child in tree.children]}


class ChaosTree:
    """One tree, running.

    Args:
        seed: Of the tree and its rounds.
        directory: For its file, logs and disks.
        first_port: Of a block that is free.
    """

    def __init__(self, seed: int, directory: Path, first_port: int) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        file = directory / "topology.yaml"
        file.write_text(json.dumps(grown(self._chance, directory, first_port)))
        self.topology: Topology = load(file)
        processes = [behind_proxy(one, _FRONTS) for one in processes_of(plan(self.topology), file)]
        self._supervisor = Supervisor(processes, directory / "logs")
        self._homes = {
            one.name: {each.name for each in processes if each.cluster == one.cluster}
            for one in processes
        }
        self._disks = {
            f"{cluster.name}-store-{place}": store
            for cluster in self.topology.clusters
            for place, store in enumerate(cluster.stores, 1)
        }

    def run(self, rounds: int) -> Iterator[ChaosRound | str]:
        """Yield what came of each round, and at the end what was found wrong with the records."""
        with ExitStack() as opened:
            running = partial(processes_running, self._supervisor.children)
            self._proxy = opened.enter_context(closing(Proxy(_FRONTS, running)))
            opened.callback(self._supervisor.stop)
            self._supervisor.start()
            job.wait_until_ready(self.topology, self._supervisor)
            load_ = drill.Load(self.topology, RATE)
            opened.callback(load_.close)
            self._wait(3.0)
            for place in range(rounds):
                faults = self._drawn()
                healed_s = self._heal() if self._break(faults, load_) else None
                yield ChaosRound(self._seed, place, faults, healed_s)
            published = load_.finish()
            if self._heal() is None:
                yield "clusters do not become equal"
            yield from self._read_back(published)

    def _drawn(self) -> tuple[ChaosFault, ...]:
        several = {one.name for one in self.topology.clusters if len(one.stores) > 1}
        kinds = (ProcessKind.STORE, ProcessKind.TOWER, ProcessKind.DISTRIBUTOR)
        names = [child.process.name for child in self._children(*kinds)]
        stores = [name for name in self._disks if name.partition("-store-")[0] in several]
        return drawn(self._chance, stores, names)

    def _children(self, *kinds: ProcessKind) -> list[Child]:
        return [child for child in self._supervisor.children if child.process.kind in kinds]

    def _child(self, name: str) -> Child:
        (child,) = [one for one in self._supervisor.children if one.process.name == name]
        return child

    def _break(self, faults: Sequence[ChaosFault], load_: drill.Load) -> bool:
        """Let faults begin and end; False if what has to be copied before one of them is not."""
        for fault in faults:
            if fault.kind is FaultKind.EMPTY and not self._empty(fault.process, load_):
                return False
        with ExitStack() as mended:
            for fault in faults:
                self._begin(fault, mended)
            self._wait(max(fault.seconds for fault in faults))
        return True

    def _begin(self, fault: ChaosFault, mended: ExitStack) -> None:
        """Let a fault begin, and end with `mended` if it lasts."""
        running = self._child(fault.process).running
        if running is None:
            return
        match fault.kind:
            case FaultKind.KILL:
                running.kill()
            case FaultKind.STOP:
                running.send_signal(signal.SIGSTOP)
                mended.callback(running.send_signal, signal.SIGCONT)
            case FaultKind.UNHEARD | FaultKind.DEAF:
                way = unheard if fault.kind is FaultKind.UNHEARD else deaf
                hindrance = way({fault.process}, self._homes[fault.process])
                mended.enter_context(self._proxy.hindered(hindrance))
            case FaultKind.FULL:
                mended.callback(self._fill(running.pid, self._disks[fault.process]))
            case FaultKind.EMPTY:
                pass  # that is over

    def _fill(self, pid: int, store: StoreSpec) -> Callable[[], None]:
        """Let the file that a store writes records to grow no more."""
        data = Path(store.data)
        file = max((data / "segments").glob("*.log"), default=data / "data.mdb")
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (file.stat().st_size, before[1]))

        def make_room() -> None:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

        return make_room

    def _empty(self, name: str, load_: drill.Load) -> bool:
        """Take a store's disk away, once others have all that is on it; False if they do not."""
        child, data = self._child(name), Path(self._disks[name].data)
        with load_.paused([child.process.cluster]):
            if self._heal() is None:
                return False
            child.held = True
            if child.running is not None:
                child.running.kill()
                child.running.wait()
                child.running = None
            shutil.rmtree(data)
            child.held, child.due_s = False, 0.0
            self._wait(0.5)
        return True

    def _wait(self, seconds: float) -> None:
        drill.watch_until(lambda _: False, seconds, self.topology, self._supervisor)

    def _heal(self) -> float | None:
        """Wait until every store of every cluster has what any has now."""
        began = time.monotonic()
        drill.wait_until_back(self.topology, self._supervisor)
        due = drill.union(drill.look(self.topology))
        for each in _by_store(self.topology):
            left_s = began + HEAL_S_MAX - time.monotonic()
            holds = drill.all_hold(each, due)
            if drill.watch_until(holds, left_s, each, self._supervisor) is None:
                return None
        return time.monotonic() - began

    def _read_back(self, published: job.Published) -> Iterator[str]:
        for each in _by_store(self.topology):
            for proof in job.prove(each, published, lambda _: None):
                if not proof.flawless:
                    store = each.cluster(proof.cluster).stores[0]
                    yield (
                        f"store {store.query} of {proof.cluster}: {proof.lost} lost, "
                        f"{proof.duplicated} twice, {proof.disordered} out of order "
                        f"of {published.rows}"
                    )


def _by_store(topology: Topology) -> Iterator[Topology]:
    """The topology as the first, then as the second store of each cluster alone shows it."""
    most = max(len(cluster.stores) for cluster in topology.clusters)
    for place in range(most):
        clusters = tuple(
            replace(one, stores=(one.stores[min(place, len(one.stores) - 1)],))
            for one in topology.clusters
        )
        yield replace(topology, clusters=clusters)


def free_block(first: int) -> int:
    """The first port from here on of a block in which nobody listens."""
    size = _PORTS_EACH * (CLUSTERS_MAX + 3)
    hosts = ("127.0.0.1", *_FRONTS, *_FRONTS.values())
    while any(is_taken(host, port) for port in range(first, first + size) for host in hosts):
        first += 100
    return first


def run(
    seed: int, rounds: int, directory: Path, first_port: int
) -> tuple[list[ChaosRound], list[str]]:
    """Grow one tree and break it so often; returns what came of it, and what is wrong."""
    done: list[ChaosRound] = []
    problems: list[str] = []
    tree = ChaosTree(seed, directory, first_port)
    say(render_text(tree.topology), file=sys.stderr)
    for outcome in tree.run(rounds):
        if isinstance(outcome, str):
            problems.append(f"tree {seed}: {outcome}")
            continue
        done.append(outcome)
        if outcome.healed_s is None:
            problems.append(f"tree {seed}, round {outcome.place}: not healed in {HEAL_S_MAX:.0f} s")
        say(f"  round {outcome.place}: {_faults(outcome)}: {_healed(outcome)}", file=sys.stderr)
    return done, problems


def _faults(one: ChaosRound) -> str:
    return ", ".join(map(str, one.faults))


def _healed(one: ChaosRound) -> str:
    return "NOT healed" if one.healed_s is None else f"{one.healed_s:.1f} s"


def main() -> int:
    """Break trees from the command line; 0 if all healed and nothing is lost."""
    parser = argparse.ArgumentParser(description="Break real processes at random.")
    parser.add_argument("--seed", type=int, default=0, help="of the first tree")
    parser.add_argument("--rounds", type=int, default=50, help="of all trees together")
    arguments = parser.parse_args()
    set_up_logs("error")  # that nodes do not find each other for a while is meant
    done: list[ChaosRound] = []
    problems: list[str] = []
    seed = arguments.seed
    while len(done) < arguments.rounds:
        rounds = min(ROUNDS_A_TREE, arguments.rounds - len(done))
        with tempfile.TemporaryDirectory(prefix="dafka-chaos-") as directory:
            came, wrong = run(seed, rounds, Path(directory), free_block(27_000))
        done += came
        problems += wrong
        seed += 1
    open_console().print(table(ROUNDS_SHOWN, done, "rounds"))
    for problem in problems:
        say(problem)
    say(f"{len(done)} rounds on {seed - arguments.seed} trees, {len(problems)} problems")
    return 1 if problems else 0


ROUNDS_SHOWN: Columns[ChaosRound] = (
    number("tree", "seed"),
    number("round", "place"),
    column("faults", _faults),
    number("healed in", _healed),
)


if __name__ == "__main__":
    sys.exit(main())
