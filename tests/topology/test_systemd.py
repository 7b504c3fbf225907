from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.topology.test_deployment import FOUR, with_keys
from topology.deployment import DeploymentError
from topology.model import ControlSpec, RetentionSpec
from topology.systemd import units


def test_each_host_has_a_unit_for_each_process():
    hosts = units(with_keys(FOUR))
    ours = hosts["dafka-3.example"]
    assert sorted(ours) == sorted(
        f"dafka-cluster-3-{what}.service"
        for what in (
            *("tower-1", "store-1", "level-1", "level-3"),
            *("registry", "schemas", "gateway-1"),
        )
    )
    store = ours["dafka-cluster-3-store-1.service"]
    assert "\nStateDirectory=dafka\nStateDirectoryMode=0700\n" in store
    assert "--key /etc/dafka/keys/cluster.secret" in store
    level = ours["dafka-cluster-3-level-3.service"]
    assert "\nRuntimeDirectory=dafka/control\nRuntimeDirectoryMode=0700\n" in level
    assert "StateDirectory" not in level


def test_only_units_change_whose_process_reads_something_else():
    before = units(FOUR)["dafka-1.example"]
    slower = replace(FOUR, links=replace(FOUR.links, repair_after_ms=99))
    after = units(slower)["dafka-1.example"]
    touched = {name for name in before if before[name] != after[name]}
    assert touched == {f"dafka-cluster-1-level-{level}.service" for level in (1, 3)}


def test_words_reach_the_process_as_they_are():
    rule = RetentionSpec(topics='50% of "$x" \\', age_s=9)
    unit = units(replace(FOUR, retention=(rule,)))["dafka-1.example"][
        "dafka-cluster-1-store-1.service"
    ]
    assert r'--retain "50%% of \"$$x\" \\,age_s=9"' in unit
    assert not re.search(r"(?<!\$)\$(?!\$)", unit)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: replace(one, control=ControlSpec(directory="/tmp/x/y")), "below /run/"),
        (
            lambda one: replace(
                one,
                clusters=tuple(
                    replace(each, stores=(replace(each.stores[0], data="/srv/a/b"),))
                    for each in one.clusters
                ),
            ),
            "below /var/lib/",
        ),
    ],
)
def test_directories_that_systemd_does_not_make_are_refused(change, told):
    with pytest.raises(DeploymentError, match=told):
        units(change(FOUR))


def test_each_share_of_links_has_a_unit():
    shared = replace(FOUR, links=replace(FOUR.links, level_shares={3: 2}))
    ours = units(shared)["dafka-1.example"]
    for share in (0, 1):
        unit = ours[f"dafka-cluster-1-level-3-{share}-of-2.service"]
        assert f"--level 3 --share {share}/2" in unit
        assert f":{9243 + 64 * share}" in unit
    assert "dafka-cluster-1-level-3.service" not in ours
    assert "--share" not in ours["dafka-cluster-1-level-1.service"]
