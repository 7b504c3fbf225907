from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path

import pytest

from distributor.errors import ArchiveError
from distributor.spark import archive as module
from distributor.spark.archive import OURS, write_archive


class Installed:
    """A distribution with these requirements, and one file."""

    version = "1"

    def __init__(self, root, name, *requires):
        self.requires = list(requires)
        self.files = [metadata.PackagePath(name, "code.py"), metadata.PackagePath("..", "bin")]
        for file in self.files:
            file.dist = self
        self._root = root
        (root / name).mkdir()
        (root / name / "code.py").write_text(name)

    def locate_file(self, path):
        return self._root / path


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A function that has these installed, by name."""

    def environment(**required):
        made = {
            name.replace("_", "-"): Installed(tmp_path, name, *requires)
            for name, requires in required.items()
        }

        def found(name):
            if name not in made:
                raise metadata.PackageNotFoundError(name)
            return made[name]

        monkeypatch.setattr(module.metadata, "distribution", found)

    return environment


def test_what_is_required_and_installed_is_in_it(environment, tmp_path):
    """Also by way of others, and with the extras that are asked for; Spark never."""
    environment(
        dafka_distributor=(
            *("zeromq>=2", "Under_Score[fast, safe] (>=1)", "pyspark>=4; extra == 'spark'"),
            *('arrow<9; extra == "spark"', "linter; extra == 'dev'"),
        ),
        zeromq=('old; python_version < "3"', "below"),
        under_score=("quick; extra == 'fast'", "slow; extra == 'other'"),
        arrow=(),
        quick=("zeromq",),
        below=(),
        slow=(),
        linter=(),
        pyspark=(),
    )
    file = tmp_path / "deps.tar.gz"
    versions = write_archive(file)
    assert sorted(versions) == ["arrow", "below", OURS, "quick", "under-score", "zeromq"]
    with tarfile.open(file) as archive:
        names = archive.getnames()
    assert "under_score/code.py" in names
    assert {"dafka/model.py", "distributor/py.typed", "topology/plan.py"} < {*names}
    assert not [name for name in names if ".." in name or "__pycache__" in name]


def test_what_is_not_installed_is_named_and_nothing_is_left(environment, tmp_path):
    environment(dafka_distributor=("zeromq",))
    with pytest.raises(ArchiveError, match=r"zeromq is not installed: pip install"):
        write_archive(tmp_path / "deps.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["dafka_distributor"]


def test_an_archive_that_is_not_ended_is_not_there(environment, tmp_path, monkeypatch):
    environment(dafka_distributor=())
    before = tmp_path / "deps.tar.gz"
    before.write_text("as it was")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "add", full)
    with pytest.raises(OSError, match="No space"):
        write_archive(before)
    assert before.read_text() == "as it was"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_a_python_that_has_nothing_else_can_use_it(tmp_path):
    """But for Spark, which executors have."""
    write_archive(tmp_path / "deps.tar.gz")
    with tarfile.open(tmp_path / "deps.tar.gz") as archive:
        archive.extractall(tmp_path / "deps", filter="data")
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    code = "import aiokafka, dafka.node.mirror, distributor.loading, pyarrow; print(pyarrow)"
    done = subprocess.run(
        [python, "-I", "-c", f"import sys; sys.path.insert(0, sys.argv[1]); {code}", "deps"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(Path("deps") / "pyarrow") in done.stdout
