from __future__ import annotations

from dataclasses import replace

import pytest

from dafka.errors import RegistryError
from dafka.schemas.registry import Registry
from dafka.schemas.schema_log import SchemaLog
from dafka.schemas.service import Service
from dafka.testing import registry, registry_nodes
from dafka.testing.registry import main, run
from dafka.testing.registry_nodes import RequestKind
from dafka.testing.seeds import replay_command


@pytest.mark.sim
@pytest.mark.slow
def test_whatever_happens_registries_keep_what_they_acknowledged(seeds):
    # Half of the seeds: one costs as much as several of most other simulations.
    outcomes = {seed: run(seed) for seed in seeds[: len(seeds) // 2]}
    failures = [
        f"seed {seed}: {problem}\n    {replay_command('dafka.testing.registry', seed)}"
        for seed, outcome in outcomes.items()
        for problem in outcome.problems
    ]
    assert not failures, "\n".join(failures)
    registering = sum(outcome.registered > 0 for outcome in outcomes.values())
    assert 2 * registering > len(outcomes), "in most runs nothing is registered while things break"


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


def test_a_run_whose_registrations_were_all_in_vain_proves_something_too(monkeypatch):
    register = Registry._register

    def refusing(self, subject, *rest):
        if subject != registry.REST.subject:
            raise RegistryError(50001, "the log cannot be written")
        return register(self, subject, *rest)

    monkeypatch.setattr(Registry, "_register", refusing)
    outcome = run(0)
    assert (outcome.registered, outcome.problems) == (0, ())
    hide_the_last_registration(monkeypatch)
    assert any("S3" in problem for problem in run(0).problems)


def test_a_run_that_asks_for_no_registration_is_judged_by_the_last_one(monkeypatch):
    monkeypatch.setattr(registry, "_action", lambda _chance: RequestKind.READ)
    assert run(0).registered == 0
    assert run(0).problems == ()
    hide_the_last_registration(monkeypatch)
    assert any("S3" in problem for problem in run(0).problems)


def hide_the_last_registration(monkeypatch):
    original = registry_nodes.reading_of

    def forgetful(asked, subject):
        told = original(asked, subject)
        return replace(told, versions={}) if subject == registry.REST.subject else told

    monkeypatch.setattr(registry_nodes, "reading_of", forgetful)


def test_a_run_in_which_nothing_can_be_registered_says_so(monkeypatch):
    def refuse(self, decision):
        raise RegistryError(50001, "the log cannot be written")

    monkeypatch.setattr(Service, "decide", refuse)
    assert any("not settled" in problem for problem in run(0).problems)


def test_a_registry_that_forgets_who_may_register_is_found(monkeypatch):
    monkeypatch.setattr(Service, "_check_primary", lambda self: None)
    assert any("S7" in problem for seed in range(40) for problem in run(seed).problems)


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["registry", "--seed", "3"])
    assert main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out
