"""Whoever has the package alone: what it needs, the tutorial, two clusters that are compared."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.net, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
INSTALL = ("-m", "pip", "install", "--quiet", "--constraint", ROOT / ".ci" / "constraints.txt")
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()


class Newcomer:
    """A directory with an environment of its own, and nothing of the repository."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._bin = home / "env" / "bin"
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._environment = {**kept, "PATH": f"{self._bin}:/usr/bin:/bin"}

    def run(self, *command: object, given: str = "", seconds: float = 120.0, code: int = 0) -> str:
        """What a command prints; it must end with that exit code."""
        program, *words = map(str, command)
        done = subprocess.run(
            [shutil.which(program, path=self._environment["PATH"]), *words],
            cwd=self.home,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    @contextmanager
    def running(self, command: str, log: Path, ready: str) -> Iterator[None]:
        """A command that goes on, from when its log says so; ended as Ctrl-C does."""
        program, *words = command.split()
        with log.open("wb") as file:
            process = subprocess.Popen(
                [self._bin / program, *words],
                cwd=self.home,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + 120
            while ready not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0, log.read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Made of the sdist, which is made of the sources."""
    source = tmp_path_factory.mktemp("source")  # setuptools leaves what it builds where it builds
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("dafka", "distributor", "topology"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    made = tmp_path_factory.mktemp("dist")
    build = ("-m", "build", "--outdir", made, source)
    subprocess.run([sys.executable, *build], check=True, timeout=300, capture_output=True)
    assert [path.name for path in made.glob("*.tar.gz")]
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def bare(wheel):
    """Who has installed no extra. Paths are short: a socket's has 107 bytes at most."""
    with TemporaryDirectory(prefix="dafka-") as home:
        one = Newcomer(Path(home))
        subprocess.run([sys.executable, "-m", "venv", one.home / "env"], check=True, timeout=120)
        one.run("python", *INSTALL, wheel, seconds=600)
        yield one


@pytest.fixture(scope="module")
def newcomer(bare, wheel):
    bare.run("python", *INSTALL, f"{wheel}[distributor]", seconds=600)
    return bare


def moved(text: str, first: int) -> str:
    """A topology file at other ports: those of a first file may be somebody's here."""
    places = re.compile(r"17([19])(\d\d)")
    return places.sub(lambda port: str(first + int(port[2]) + 50 * (port[1] == "9")), text)


def move_file(one: Newcomer, first: int) -> str:
    file = one.home / "topology.yaml"
    file.write_text(moved(file.read_text(), first))
    return file.read_text()


def test_without_extras_a_client_is_there_and_the_rest_says_what_to_install(bare):
    bare.run("python", "-c", "from dafka import AsyncConsumer, Producer, Store, Tower")
    assert "Publish every line" in bare.run("dafka", "produce", "--help")
    told = bare.run("dafka", "gateway", "--cluster", "cluster-1", code=2)
    assert told == "dafka: kio is not installed: pip install 'dafka-distributor[gateway]'\n"
    told = bare.run("distributor", "controller", "status", "127.0.0.1:1", code=2)
    assert "grpc is not installed: pip install 'dafka-distributor[distributor]'" in told


def test_from_the_wheel_to_two_clusters_that_are_equal(newcomer, tmp_path, first_port):
    assert "2 clusters; run all of it with: distributor up topology.yaml" in newcomer.run(
        "topology", "init"
    )
    text = move_file(newcomer, first_port)
    towers = [re.search(rf"name: cluster-{n}\n.*\n +towers: \[(.*)\]", text)[1] for n in (1, 2)]
    with newcomer.running(
        "distributor up topology.yaml", tmp_path / "up.log", "6 processes are up"
    ):
        lines = "".join(f"{number}\n" for number in range(5))
        newcomer.run("dafka", "produce", "numbers", "--tower", towers[0], given=lines)
        newcomer.run("distributor", "wait", "topology.yaml", "--timeout", "60")
        read = ("dafka", "consume", "numbers", "--tower", towers[1], "--from-beginning")
        assert newcomer.run(*read, "--timeout", "5") == lines
        assert "equal: 1 partition" in newcomer.run("distributor", "verify", "topology.yaml")
    shutil.rmtree(newcomer.home / "data")
    (newcomer.home / "topology.yaml").unlink()


class Step(NamedTuple):
    """A command of the tutorial, and what stands below it."""

    command: str
    shown: str


def steps_of(section: str) -> list[Step]:
    return [
        Step(command, shown)
        for block in re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


READY = {"dafka tower": "is up", "dafka store": "is up", "distributor up": "16 processes are up"}
"""What goes on, and when it has begun."""


def placed(command: str, first: int) -> str:
    """A command at the ports of this test: those of the first cluster are not in a file."""
    tower, query = (f"tcp://127.0.0.1:{first + port}" for port in (40, 42))
    where = {
        "dafka tower": f" --endpoint {tower}",
        "dafka store": f" --tower {tower} --query {query}",
        "dafka produce": f" --tower {tower}",
        "dafka consume": f" --tower {tower}",
    }
    if "--tower" in command:
        return moved(command, first)
    return command + "".join(text for known, text in where.items() if known in command)


def test_the_tutorial_does_what_it_shows(newcomer, tmp_path, first_port):
    _, *sections = TUTORIAL.split("\n## ")
    last = ""
    for section in sections:
        with ExitStack() as going_on:
            for number, (command, shown) in enumerate(steps_of(section)):
                there = placed(command, first_port)
                ready = [text for known, text in READY.items() if command.startswith(known)]
                if ready:
                    log = tmp_path / f"{number}.log"
                    going_on.enter_context(newcomer.running(there, log, ready[0]))
                    continue
                last = newcomer.run("bash", "-c", f"({there}) 2>&1", seconds=300)
                if shown:
                    found, expected = last.splitlines(), moved(shown, first_port).splitlines()
                    assert [line.rstrip() for line in found] == [one.rstrip() for one in expected]
                if command.startswith("topology init"):
                    move_file(newcomer, first_port)
    assert last.splitlines()[-1] == "lost = 0, duplicated = 0"
