from __future__ import annotations

import pytest

from distributor.spark import archive


@pytest.fixture
def written(monkeypatch):
    """The archives that were asked for; nothing is packed."""
    files = []

    def write(file):
        files.append(file)
        file.write_bytes(bytes(2_500_000))
        return {"dafka-distributor": "1", "pyarrow": "2"}

    monkeypatch.setattr(archive, "write_archive", write)
    return files


def test_it_says_how_to_use_the_archive(run, written, tmp_path):
    file = tmp_path / "deps.tar.gz"
    code, out, _ = run("spark", "package", file)
    assert (code, written) == (0, [file])
    first, second = out.splitlines()
    assert first == f"{file}: 2 distributions, 2 MB"
    assert f"--conf spark.archives={file}#deps" in second
    assert "--conf spark.executorEnv.PYTHONPATH=deps" in second


def test_what_spark_would_not_unpack_is_refused(run, written, tmp_path):
    code, _, err = run("spark", "package", tmp_path / "deps.tar")
    assert (code, written) == (2, [])
    assert "must end with .tar.gz or .tgz" in err


def test_where_it_cannot_be_written(run, tmp_path):
    code, _, err = run("spark", "package", tmp_path / "nowhere" / "deps.tar.gz")
    assert code == 2
    assert f"cannot write '{tmp_path}/nowhere/deps.tar.gz': No such file" in err
