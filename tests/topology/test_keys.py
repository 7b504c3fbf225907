from topology.keys import KEYS, OPTIONAL, REQUIRED


def test_what_may_be_left_out_and_what_must_not_are_keys():
    assert {key for kind in KEYS.values() for key in kind} >= OPTIONAL
    assert all(key in KEYS[kind] for kind, key in REQUIRED)
