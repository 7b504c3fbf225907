from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from topology.extras import (
    DISTRIBUTION,
    EXTRAS,
    MissingExtraError,
    extras_of,
    require,
    told_of_extras,
)

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIBRARIES = {name for names in EXTRAS.values() for name in names}


def required(extra):
    """The distributions that an extra asks for, but ours."""
    asked = map(Requirement, PROJECT["optional-dependencies"][extra])
    return {one.name for one in asked} - {DISTRIBUTION}


def brought_by(module):
    """The distributions that have a part of it."""
    if module == "google.protobuf":
        return {"protobuf"}
    return {canonicalize_name(one) for one in metadata.packages_distributions()[module]}


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_modules_of_an_extra_are_those_of_what_it_requires(extra):
    brought = [brought_by(module) for module in EXTRAS[extra]]
    wanted = required(extra) - {"googleapis-common-protos"}  # it has no code
    assert all(wanted & distributions for distributions in brought)
    assert wanted <= set().union(*brought)


def test_what_every_process_needs_is_no_extra():
    base = {Requirement(one).name for one in PROJECT["dependencies"]}
    assert not base & {name for extra in EXTRAS for name in required(extra)}


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("kio.index", ("gateway",)),
        ("google", ("distributor", "schemas")),
        ("google.protobuf.message", ("distributor", "schemas")),
        ("google.cloud", ()),
        ("numpyro", ()),
        ("starlette", ("dashboard", "schemas")),
        ("dafka.nothing", ()),
    ],
)
def test_which_extra_brings_a_module(name, extras):
    assert extras_of(name) == extras


def test_who_lacks_one_is_told_what_to_install():
    with pytest.raises(MissingExtraError) as raised, told_of_extras():
        raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
    assert str(raised.value) == "PIL is not installed: pip install 'dafka-distributor[png]'"
    assert (raised.value.name, raised.value.extras) == ("PIL", ("png",))


def test_who_lacks_a_library_of_the_system_is_told_which():
    path = "/opt/env/lib/python3.11/site-packages/pygraphviz/_graphviz.abi3.so"
    with pytest.raises(MissingExtraError) as raised, told_of_extras():
        raise ImportError("libXext.so.6: cannot open it", name="_graphviz", path=path)
    assert str(raised.value) == (
        "pygraphviz cannot be loaded: libXext.so.6: cannot open it: "
        "install what has it on this system"
    )
    assert (raised.value.name, raised.value.extras) == ("pygraphviz", ("png",))


def test_it_is_told_once():
    with pytest.raises(MissingExtraError) as raised, told_of_extras(), told_of_extras():
        raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)
    assert not isinstance(raised.value.__cause__, MissingExtraError)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_there_or_it_is_said_that_it_is_not(extra, monkeypatch):
    require(extra)
    module = EXTRAS[extra][-1]
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    with pytest.raises(MissingExtraError) as raised:
        require(extra)
    assert raised.value.extras == (extra,)


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("x", name="dafka.x"),
        ImportError("x"),
        ImportError("x", name="_x", path="/opt/env/site-packages/lmdb/cpython.abi3.so"),
        ImportError("cannot import name", name="PIL", path="/site-packages/PIL/__init__.py"),
    ],
)
def test_what_no_extra_brings_is_left_as_it_is(error):
    with pytest.raises(ImportError) as raised, told_of_extras():
        raise error
    assert raised.value is error


def without_extras(program):
    """Run a program where none of them is installed."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({sorted(LIBRARIES)!r}))"
    return subprocess.run(
        [sys.executable, "-c", f"{hide}\n{program}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


TOLD = {
    "dafka schemas --help": "[schemas]",
    "dafka gateway --help": "[gateway]",
    "dafka keys tls": "[distributor]",
    "distributor controller --help": "[distributor]",
    "distributor wait config/four-clusters.yaml": "[distributor]",
    "distributor dashboard config/four-clusters.yaml": "[dashboard]",
    "distributor spark package deps.tar.gz": "[spark]",
    "topology show config/four-clusters.yaml --format png --output tree.png": "[png]",
}
MAINS = {
    "dafka": "dafka.cli.main",
    "distributor": "distributor.cli.main",
    "topology": "topology.cli",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", TOLD)
def test_a_command_without_its_extra_ends_with_what_to_install(command, tmp_path):
    words = command.split()
    if "keys" in words:
        words += ["--dir", str(tmp_path)]
    done = without_extras(
        f"import sys; sys.argv = {words!r}; from {MAINS[words[0]]} import main; main()"
    )
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{words[0]}: ")
    assert f"pip install 'dafka-distributor{TOLD[command]}'" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "package", ["dafka.serializers", "dafka.spark", "distributor.spark", "topology.picture"]
)
def test_a_package_without_its_extra_raises_an_error_of_its_own(package):
    done = without_extras(
        "from topology import MissingExtraError\n"
        f"try: import {package}; [getattr({package}, name) for name in {package}.__dir__()]\n"
        "except MissingExtraError as error: print(error.extras)"
    )
    assert done.stdout.startswith("('"), done.stderr


@pytest.mark.slow
def test_a_client_a_store_and_a_link_need_no_extra():
    done = without_extras(
        "import dafka, distributor, topology\n"
        "for package in (dafka, distributor, topology):\n"
        "    for name in package.__all__: getattr(package, name)\n"
        "import distributor.cli.run, distributor.cli.up, dafka.cli.store, dafka.cli.tower\n"
        "import dafka.cli.produce, dafka.cli.consume\n"
        "import dafka.cli.groups, dafka.cli.queries\n"
        "print('all')"
    )
    assert done.stdout == "all\n", done.stderr
