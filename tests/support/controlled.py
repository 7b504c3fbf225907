"""Two clusters in real processes, of which controllers let replicas copy the first one's records.

Nothing here imports the product: it is run by its commands.
"""

from __future__ import annotations

import sys
from urllib.request import urlopen


class Controlled:
    """Two replicas and two controllers of the first of two clusters.

    Args:
        world: The clusters.
        until: Waits.
        certificates: The folder that `dafka keys tls` has made; None for none.
        fronts: For each replica the host at which controllers reach it, and where it listens.
    """

    def __init__(self, world, until, certificates=None, fronts=()):
        self._world, self._certificates = world, certificates
        self.replicas = {}
        """By the place of their metrics."""
        self._named = []
        hosts = list(fronts) or [("127.0.0.1", "127.0.0.1")] * 2
        for (front, behind), (listen, metrics) in zip(hosts, ((6, 8), (7, 9)), strict=True):
            port = world.ports[listen]
            self._named += ["--replica", f"{behind}:{port}={front}:{port}"]
            self.start_replica(f"{behind}:{port}", f"127.0.0.1:{world.ports[metrics]}")
        # A controller that finds one of them alone lets it write all, and leaves it alone then.
        for metrics in self.replicas:
            until(lambda metrics=metrics: self.told(metrics, "python_info"), 60)
        self._shows = []
        """Where controllers show what they know."""
        self.controllers = [self.controller() for _ in range(2)]

    def start_replica(self, at, metrics):
        """Start one."""
        words = ["--listen", at, "--metrics", metrics, *self._shown("replica", "--client-ca")]
        self.replicas[metrics] = self._world.distributor("replica", *words), at

    def controller(self):
        """Start another controller."""
        shows = f"127.0.0.1:{self._world.ports[10 + len(self._shows)]}"
        self._shows.append(shows)
        words = [*self._named, "--metrics", shows, *self._shown("controller", "--replica-ca")]
        return self._world.distributor("controller", "run", *words)

    def _shown(self, role, authority):
        """The options that say what a process shows, and whom it believes."""
        folder = self._certificates
        if folder is None:
            return []
        words = ["--certificate", folder / f"{role}.pem", "--certificate-key"]
        return [*map(str, [*words, folder / f"{role}.key", authority, folder / "ca.pem"])]

    def tell(self):
        """Say what replicas and controllers show, for whoever has to find out what went wrong."""
        pages = [f"{one}/metrics" for one in self.replicas]
        for page in (*pages, *(f"{one}/controller" for one in self._shows)):
            try:
                with urlopen(f"http://{page}", timeout=2) as shown:
                    told = shown.read().decode()
            except OSError as error:
                told = str(error)
            lines = [one for one in told.splitlines() if not one.startswith("#")]
            sys.stdout.write(f"{page}: {' | '.join(lines)}\n")

    def flows(self, metrics, status, kind="records"):
        """How many flows of a replica do something."""
        return self.told(metrics, f'distributor_replica_flows{{kind="{kind}",status="{status}"}} ')

    def told(self, metrics, prefix):
        """The sum of what a replica tells in lines that begin so; 0 if it is not there."""
        try:
            with urlopen(f"http://{metrics}/metrics", timeout=2) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return 0
        return sum(float(one.split()[-1]) for one in lines if one.startswith(prefix))

    def writer(self):
        """Where the metrics are of the replica that writes; none if not exactly one does."""
        found = [one for one in self.replicas if self.flows(one, "writing")]
        return found[0] if len(found) == 1 else None

    def others_write(self, metrics):
        """A function that tells whether another replica writes than one."""
        others = [one for one in self.replicas if one != metrics]
        return lambda: any(self.flows(one, "writing") for one in others)

    def ready(self):
        """Whether one replica writes, and the other is ready to."""
        writer = self.writer()
        others = self.replicas.keys() - {writer}
        return writer if writer and all(self.flows(one, "warm") for one in others) else None

    def is_in_charge(self, number):
        """Whether a controller says that it is."""
        return self.told(self._shows[number], "distributor_controller_in_charge{") == 1

    def in_charge(self):
        """The numbers of those that say so."""
        return [number for number in range(len(self._shows)) if self.is_in_charge(number)]

    def replaced(self):
        """How many flows were begun anew, or ended, as a controller connected again."""
        total = 0
        for metrics in self.replicas:
            with urlopen(f"http://{metrics}/metrics", timeout=20) as page:
                for line in page.read().decode().splitlines():
                    if line.startswith(
                        tuple(f'{FATES}{{fate="{one}"}}' for one in ("replaced", "dropped"))
                    ):
                        total += float(line.split()[-1])
        return total


FATES = "distributor_replica_reconciled_flows_total"
