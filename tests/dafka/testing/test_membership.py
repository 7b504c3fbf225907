from __future__ import annotations

import pytest

from dafka.groups import acceptor, member
from dafka.model import Partition
from dafka.testing import membership
from dafka.testing.membership import Owners, main, run
from tests.support.seeds import broken_by, shown_by

P0 = Partition("orders", "P0")


@pytest.mark.sim
@pytest.mark.slow
def test_a_partition_has_one_owner_whatever_happens(seeds):
    outcomes = [run(seed) for seed in seeds]
    assert all(outcome.taken >= 12 for outcome in outcomes)
    assert all(outcome.generations >= 1 for outcome in outcomes)


def test_the_same_seed_is_the_same_run():
    assert run(5) == run(5)


def test_two_owners_at_a_time_are_found():
    owners = Owners()
    owners.take(1, P0, "M0")
    with pytest.raises(AssertionError, match="M0 and M1"):
        owners.take(2, P0, "M1")


def test_two_owners_in_a_generation_are_found():
    owners = Owners()
    owners.take(1, P0, "M0")
    owners.drop(P0, "M0")
    with pytest.raises(AssertionError):
        owners.take(1, P0, "M1")


def test_two_generations_of_one_number_are_found():
    owners = Owners()
    owners.generation(1, ["M0"], {})
    with pytest.raises(AssertionError, match="two generations 1"):
        owners.generation(1, ["M1"], {})
    with pytest.raises(AssertionError, match="two generations 1"):
        owners.generation(1, ["M0"], {"00" * 8: "M0"})


def test_a_member_that_does_not_wait_for_the_others_is_found(monkeypatch):
    def alone(self):
        return self._released >= self.generation

    monkeypatch.setattr(member.MemberMachine, "_all_released", alone)
    assert broken_by(run, range(20))


def test_a_member_that_takes_a_later_hand_over_for_its_own_is_found(monkeypatch):
    def sooner(self):
        generation, pulses = self.generation, [one.pulses for one in self._rosters.values()]
        done = {one.member for many in pulses for one in many if one.released >= generation}
        others = self._membership.members.keys() - {self.id}
        return self._released >= generation and done >= others

    monkeypatch.setattr(member.MemberMachine, "_all_released", sooner)
    assert broken_by(run, [25])
    assert broken_by(run, [1464]), "in which it was found"


def test_a_member_that_goes_on_without_a_lease_is_found(monkeypatch):
    def renew(self, store, sent_ms):
        self._lease_ms = 1 << 60

    monkeypatch.setattr(member.MemberMachine, "_renew", renew)
    assert broken_by(run, range(60))


def test_a_store_that_forgets_what_it_promised_is_found(monkeypatch):
    monkeypatch.setattr(
        acceptor.Registers, "_read", lambda self, group, now_ms: acceptor._Register()
    )
    assert broken_by(run, range(60))


def test_a_new_disk_that_does_not_wait_for_leases_of_the_old_one_is_found(monkeypatch):
    monkeypatch.setattr(acceptor.Registers, "_may_miss", lambda *_: False)
    assert broken_by(run, shown_by(44, 400))


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["membership", "--seed", "3"])
    assert main() == 0
    assert "1 of 1 seeds pass" in capsys.readouterr().out


def test_the_command_says_what_failed(monkeypatch, capsys):
    def broken(seed):
        raise AssertionError("two owners")

    monkeypatch.setattr(membership, "run", broken)
    monkeypatch.setattr("sys.argv", ["membership", "--seed", "3", "--count", "2"])
    assert main() == 1
    assert "seed 4: two owners" in capsys.readouterr().out
