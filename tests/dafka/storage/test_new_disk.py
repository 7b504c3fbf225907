from __future__ import annotations

from dafka.storage.lmdb_log import Durability, LmdbLog
from dafka.storage.new_disk import catch_up, is_new


def test_a_disk_is_new_until_it_has_caught_up_also_after_a_restart(tmp_path):
    found = []
    for opening in range(4):
        log = LmdbLog(tmp_path, durability=Durability.OS)
        found.append(is_new(log))
        if opening in (1, 2):
            catch_up(log)
            assert not is_new(log)
        log.close()
    assert found == [True, True, False, False]
