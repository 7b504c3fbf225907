"""`distributor status` and `verify` when nobody answers; running ones are in tests/processes."""

from __future__ import annotations

import json

import pytest

# Each waits for the stores' answers in vain: two seconds.
pytestmark = pytest.mark.slow


@pytest.fixture
def nobody(tmp_path, free_ports):
    """A topology on ports where nothing listens."""
    first = free_ports(8)
    lines = ["version: 1", "name: nobody", "clusters:"]
    for number in (1, 2):
        port = first + 4 * (number - 1)
        lines.append(
            f"  - {{name: c{number}, id: {number}, towers: ['tcp://127.0.0.1:{port}'], "
            f"stores: [{{query: 'tcp://127.0.0.1:{port + 2}', data: d{number}}}]}}"
        )
    file = tmp_path / "nobody.yaml"
    file.write_text("\n".join([*lines, "tree: {level: 1, children: [c1, c2]}"]))
    return file


def test_status_says_who_does_not_answer_and_fails(run, nobody):
    code, out, _ = run("status", nobody, "--json")
    assert code == 1
    facts = json.loads(out)
    assert all("cannot reach" in cluster["error"] for cluster in facts["clusters"])
    assert all("c1" in link["error"] or "c2" in link["error"] for link in facts["links"])


def test_status_for_people(run, nobody):
    code, out, _ = run("status", nobody)
    assert code == 1
    assert "cannot" in out


def test_verify_does_not_call_silence_equal(run, nobody):
    code, out, _ = run("verify", nobody, "--json")
    assert code == 1
    verdict = json.loads(out)
    assert verdict["equal"] is False
    assert len(verdict["unreachable"]) == 2
    assert run("verify", nobody)[0] == 1
