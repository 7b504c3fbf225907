from __future__ import annotations

import pytest

from dafka.schemas.schema_log import SchemaLog
from dafka.schemas.service import Service
from dafka.testing import registry
from dafka.testing.registry import main, run
from dafka.testing.registry_nodes import RequestKind


@pytest.mark.sim
@pytest.mark.slow
def test_whatever_happens_registries_keep_what_they_acknowledged(seeds):
    # Half of the seeds: one costs as much as several of most other simulations.
    failures = [
        f"seed {seed}: {problem}\n    python -m dafka.testing.registry --seed {seed}"
        for seed in seeds[: len(seeds) // 2]
        for problem in run(seed).problems
    ]
    assert not failures, "\n".join(failures)


def test_the_same_seed_is_the_same_run():
    assert run(3) == run(3)
    assert run(3).fingerprint != run(4).fingerprint


@pytest.mark.sim
def test_runs_have_writes_that_time_out_and_land_later(monkeypatch):
    late, answered, write = [], [], SchemaLog.write

    def watched(self, entries):
        try:
            write(self, entries)
        except Exception:
            late.append((self.address, entries[0].key, entries[0].stamp))
            raise

    apply = registry.SimStore.written

    def stored(self, batches, *rest):
        answered.extend(batch.partition.address for batch in batches)
        apply(self, batches, *rest)

    monkeypatch.setattr(SchemaLog, "write", watched)
    monkeypatch.setattr(registry.SimStore, "written", stored)
    assert any(run(seed).unknown for seed in range(12))
    assert {address for address, _, _ in late} & set(answered)


def test_a_run_in_which_nothing_is_registered_says_so(monkeypatch):
    monkeypatch.setattr(registry, "_action", lambda _chance: RequestKind.READ)
    assert any("vacuous" in problem for problem in run(0).problems)


def test_a_registry_that_forgets_who_may_register_is_found(monkeypatch):
    monkeypatch.setattr(Service, "_check_primary", lambda self: None)
    assert any("S7" in problem for seed in range(40) for problem in run(seed).problems)


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["registry", "--seed", "3"])
    assert main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out
