from __future__ import annotations

from topology.bars import Once, bar


def test_where_nobody_looks_on_nothing_is_shown(capsys):
    with bar("comparing") as progress:
        progress(1, 2)
        progress(2, 2)
    assert capsys.readouterr() == ("", "")


def test_who_is_waited_for_is_said_once(capsys):
    silent = Once()
    for who in ("a", "b", "a"):
        silent.say(who, "no answer")
    assert capsys.readouterr().err.splitlines() == [
        "distributor: still waiting for a: no answer",
        "distributor: still waiting for b: no answer",
    ]
