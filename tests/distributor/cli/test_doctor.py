from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.net


def test_all_well_is_exit_code_0(run, pair):
    with pair.running():
        code, out, _ = run("doctor", pair.file)
        assert (code, out) == (0, "all well: 2 clusters, 2 links\n")
        code, out, _ = run("doctor", pair.file, "--json")
    assert (code, json.loads(out)) == (0, {"well": True, "findings": []})


def test_what_is_wrong_is_exit_code_1(run, pair):
    with pair.running(1):
        code, out, _ = run("doctor", pair.file)
        assert code == 1
        assert out.startswith("1. c2\n   its store does not answer")
        assert "   → start the store" in out
        code, out, _ = run("doctor", pair.file, "--json")
    assert code == 1
    found = json.loads(out)
    assert not found["well"]
    assert found["findings"][0]["about"] == "c2"
    assert set(found["findings"][0]) == {"about", "what", "do"}
