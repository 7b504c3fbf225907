from __future__ import annotations

from topology.bars import bar


def test_where_nobody_looks_on_nothing_is_shown(capsys):
    with bar("comparing") as progress:
        progress(1, 2)
        progress(2, 2)
    assert capsys.readouterr() == ("", "")
