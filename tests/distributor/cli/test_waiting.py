from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from dafka.model import replace
from distributor.cli.main import app
from distributor.control.questions import Waited
from tests.support.operators import LEFT, FakeDesk, served


def wait(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["wait", *map(str, words)])


@pytest.mark.net
@pytest.mark.slow
def test_waiting_ends_when_all_is_everywhere_or_time_is_up(pair, make_batch):
    pair.fill(1, make_batch([b"1", b"2"]))
    with pair.running(1):
        silent = wait(pair.file, "--timeout", 0)
        assert silent.exit_code == 4
        assert "not everywhere after" in silent.stdout
    with pair.running():
        missing = wait(pair.file, "--timeout", 0, "--json")
        assert missing.exit_code == 1
        told = json.loads(missing.stdout)
        assert told["everywhere"] is False
        assert [one["lacks"] for one in told["clusters"]] == [0, 2]
    pair.fill(2, make_batch([b"1", b"2"]))
    with pair.running():
        done = wait(pair.file)
        lines = wait(pair.file, "--json")
    assert (done.exit_code, lines.exit_code) == (0, 0)
    assert done.stdout.startswith("everywhere after ")
    assert json.loads(lines.stdout)["everywhere"] is True


@pytest.mark.net
def test_where_controllers_run_all_links_they_are_asked(pair, free_ports):
    ports = iter(range(first := free_ports(6), first + 6))
    desk = FakeDesk()
    with served(desk) as one, served(desk) as other:
        declared = yaml.safe_load(pair.file.read_text())
        for cluster, place in zip(declared["clusters"], (one, other), strict=True):
            listen, metrics, shown = (f"127.0.0.1:{next(ports)}" for _ in range(3))
            cluster["controllers"] = [{"listen": place, "metrics": shown}]
            cluster["replicas"] = [{"listen": listen, "metrics": metrics}]
        pair.file.write_text(yaml.safe_dump(declared))
        done = wait(pair.file, "--timeout", 7)
        assert (done.exit_code, len(desk.asked)) == (0, 2), done.output
        assert done.stdout.startswith("everywhere after ")
        desk.waited_for = Waited((replace(LEFT, target="c2"),), 1, 2)
        missing = wait(pair.file, "--json")
    assert missing.exit_code == 1, missing.output
    assert [one["lacks"] for one in json.loads(missing.stdout)["clusters"]] == [0, 6]
    silent = wait(pair.file, "--timeout", 0, "--json")
    told = json.loads(silent.stdout)
    assert (silent.exit_code, told["everywhere"]) == (4, False)
    assert "no answer from" in told["clusters"][0]["error"]
