"""Another host, as far as one machine has it: a network namespace of its own, or another address.

The namespace has one wire to this one, and nothing else: what answers on loopback here does not
there. It takes rights; where they are lacking processes stay here, and use an address of loopback.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HERE, THERE = "10.209.77.1", "10.209.77.2"
ELSE = "127.0.0.2"

WAIT_S = 120


class OtherHost:
    """Another host. Ends with the stack.

    Args:
        stack: What it ends with.
        until: Waits.
    """

    def __init__(self, stack, until):
        self.real = False
        """Whether it is a namespace."""
        self._prefix = []
        tools = [shutil.which(one) for one in ("ip", "unshare", "nsenter", "sleep")]
        if not all(tools):
            return
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])  # until it is killed
        stack.callback(holder.wait, WAIT_S)
        stack.callback(holder.kill)
        mine = Path("/proc/self/ns/net").readlink()
        pid = str(holder.pid)

        def apart():
            try:
                return holder.poll() is not None or Path(f"/proc/{pid}/ns/net").readlink() != mine
            except OSError:
                return True

        until(apart, WAIT_S)
        wire, end = f"dfk{pid}a"[-15:], f"dfk{pid}b"[-15:]
        inside = ["nsenter", "--net", f"--target={pid}"]
        self.real = all(
            _done(words)
            for words in (
                ["ip", "link", "add", wire, "type", "veth", "peer", "name", end, "netns", pid],
                ["ip", "address", "add", f"{HERE}/30", "dev", wire],
                ["ip", "link", "set", wire, "up"],
                [*inside, "ip", "address", "add", f"{THERE}/30", "dev", end],
                [*inside, "ip", "link", "set", end, "up"],
                [*inside, "ip", "link", "set", "lo", "up"],
            )
        )
        self._prefix = inside if self.real else []

    @property
    def sees(self):
        """The address at which it reaches this host."""
        return HERE if self.real else ELSE

    def run(self, *words, timeout_s=100):
        """Run a command there: its exit code, what it said, and what it complained of."""
        done = subprocess.run(
            [*self._prefix, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


def _done(words):
    return not subprocess.run(words, capture_output=True, timeout=WAIT_S, check=False).returncode
