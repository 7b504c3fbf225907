import os
import subprocess
import sys

import pytest

from dafka.errors import StorageError
from dafka.storage.lock import DirectoryLock


def test_names_the_holder(tmp_path):
    lock = DirectoryLock(tmp_path, "log")
    with pytest.raises(StorageError, match=f"in use by process {os.getpid()}"):
        DirectoryLock(tmp_path, "log")
    lock.release()
    DirectoryLock(tmp_path, "log").release()


def test_ends_with_its_process(tmp_path):
    code = "import os, sys, pathlib; from dafka.storage.lock import DirectoryLock; "
    code += "DirectoryLock(pathlib.Path(sys.argv[1]), 'log'); os._exit(9)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=False)
    assert died.returncode == 9
    DirectoryLock(tmp_path, "log").release()


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="cannot lock log directory"):
        DirectoryLock(tmp_path / "missing", "log")
