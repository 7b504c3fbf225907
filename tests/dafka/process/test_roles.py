from __future__ import annotations

from dafka.process.roles import ROLES, SERVING, roles_in, uri_of


def test_roles_are_read_as_they_are_written():
    names = ["localhost", uri_of("viewer"), "spiffe://a/b", uri_of("operator")]
    assert roles_in(names) == {"viewer", "operator"}
    assert roles_in(["localhost"]) == frozenset()


def test_who_serves_has_a_role():
    assert set(SERVING) < set(ROLES)
