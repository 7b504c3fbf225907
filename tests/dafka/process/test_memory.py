import gc
import platform
import subprocess
import sys

import pytest

from dafka.process.memory import give_back_freed_memory

PROGRAM = """
import resource
from dafka.process.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytearray(1 << 20) for _ in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
as_it_comes = faults()
keep_freed_memory()
faults()
print(as_it_comes, faults())
"""

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")


def run(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return map(int, done.stdout.split())


@glibc
def test_blocks_that_come_and_go_are_not_paged_in_again():
    as_it_comes, after = run()
    assert as_it_comes > 10_000
    assert after < as_it_comes / 10


@glibc
def test_what_the_environment_says_is_obeyed():
    as_it_comes, after = run(MALLOC_TRIM_THRESHOLD_="100000")
    assert after > as_it_comes / 2


COLLECTING = """
import gc
from dafka.process.memory import collect_rarely
import dafka.node.store

before = len(gc.get_objects())
collect_rarely()
collections = []
gc.callbacks.append(lambda phase, about: collections.append(phase))
kept = [[] for _ in range(19_000)]
print(before, len(gc.get_objects()) - len(kept), len(collections))
kept += [[] for _ in range(2_000)]
print(len(collections))
"""


def test_the_collector_leaves_modules_alone_and_comes_rarely():
    done = subprocess.run(
        [sys.executable, "-c", COLLECTING],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    before, looked_at, early, late = map(int, done.stdout.split())
    assert before > 10_000
    assert looked_at < 100
    assert early == 0
    assert late > 0


@glibc
def test_giving_memory_back_leaves_no_garbage():
    give_back_freed_memory()
    before = len(gc.get_objects())
    for _ in range(100):
        give_back_freed_memory()
    assert len(gc.get_objects()) < before + 50


KEEPING = """
import os, sys, threading
from pathlib import Path
from dafka.process.memory import give_back_freed_memory, keep_freed_memory, keep_little

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

def use(count):
    blocks = [bytearray(100_000) for _ in range(count)]
    del blocks

def work():
    use(1)
    before = resident_mib()
    use(400)
    kept = resident_mib() - before
    give_back_freed_memory()
    left = resident_mib() - before
    keep_little(True)
    use(10)
    little = resident_mib() - before
    keep_little(False)
    use(400)
    print(kept, left, little, resident_mib() - before)

keep_freed_memory()
thread = threading.Thread(target=work)  # its heap is not the first
thread.start()
thread.join()
"""


@glibc
def test_heaps_keep_little_while_that_is_wanted():
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KEEPING], env=environment, capture_output=True, text=True, check=True
    )
    kept, left, little, again = map(int, done.stdout.split())
    assert min(kept, left, again) > 20, "trimming leaves the end of a heap that is not the first"
    assert little < 5
