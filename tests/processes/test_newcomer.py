"""Whoever has the wheel alone: from `pip install` to two clusters whose records are compared."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
INSTALL = ("-m", "pip", "install", "--quiet", "--constraint", ROOT / ".ci" / "constraints.txt")


class Newcomer:
    """A directory with an environment of its own, and nothing of the repository."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._bin = home / "env" / "bin"
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._environment = {**kept, "PATH": f"{self._bin}:/usr/bin:/bin"}

    def run(self, *command: object, given: str = "", seconds: float = 120.0) -> str:
        """What a command prints; it must succeed."""
        program, *words = map(str, command)
        done = subprocess.run(
            [self._bin / program, *words],
            cwd=self.home,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, log: Path, *command: str) -> subprocess.Popen[bytes]:
        """Begin what goes on."""
        program, *words = command
        with log.open("wb") as file:
            return subprocess.Popen(
                [self._bin / program, *words],
                cwd=self.home,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )


@pytest.fixture
def newcomer(tmp_path):
    """Where paths are short: a socket's has 107 bytes at most."""
    with TemporaryDirectory(prefix="dafka-") as home:
        yield installed(tmp_path, Path(home))


def installed(tmp_path: Path, home: Path) -> Newcomer:
    wheels = tmp_path / "wheels"
    source = tmp_path / "source"
    source.mkdir()  # setuptools leaves what it builds where it builds it
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("dafka", "distributor", "topology"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, source)
    subprocess.run([sys.executable, *build], check=True, timeout=300)
    one = Newcomer(home)
    subprocess.run([sys.executable, "-m", "venv", one.home / "env"], check=True, timeout=120)
    (wheel,) = wheels.iterdir()
    one.run("python", *INSTALL, wheel, seconds=600)
    return one


def moved(text: str, first: int) -> str:
    """A topology file at other ports: those of a first file may be somebody's here."""
    places = re.compile(r"17([19])(\d\d)")
    return places.sub(lambda port: str(first + int(port[2]) + 50 * (port[1] == "9")), text)


def test_from_the_wheel_to_two_clusters_that_are_equal(newcomer, tmp_path, first_port):
    assert "2 clusters; run all of it with: distributor up topology.yaml" in newcomer.run(
        "topology", "init"
    )
    file = newcomer.home / "topology.yaml"
    file.write_text(moved(file.read_text(), first_port))
    towers = [
        re.search(rf"name: cluster-{n}\n.*\n +towers: \[(.*)\]", file.read_text())[1]
        for n in (1, 2)
    ]
    log = tmp_path / "up.log"
    running = newcomer.start(log, "distributor", "up", "topology.yaml")
    try:
        deadline = time.monotonic() + 120
        while "6 processes are up" not in log.read_text():
            assert running.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        lines = "".join(f"{number}\n" for number in range(5))
        newcomer.run("dafka", "produce", "numbers", "--tower", towers[0], given=lines)
        newcomer.run("distributor", "wait", "topology.yaml", "--timeout", "60")
        read = ("dafka", "consume", "numbers", "--tower", towers[1], "--from-beginning")
        assert newcomer.run(*read, "--timeout", "5") == lines
        assert "equal: 1 partition" in newcomer.run("distributor", "verify", "topology.yaml")
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
