from __future__ import annotations

from prometheus_client import REGISTRY

from distributor.schemas.meter import SchemaMeter


def test_what_a_schema_distributor_tells():
    def sample(name, **labels):
        return REGISTRY.get_sample_value(f"distributor_schema_{name}", {"source": "s1", **labels})

    meter = SchemaMeter("s1")
    meter.acting(True)
    meter.lag("s2", 3, 1_000)
    meter.lag("s2", 3, 4_000)
    assert (sample("lag_entries", target="s2"), sample("lag_seconds", target="s2")) == (3, 3)
    meter.lag("s2", 0, 5_000)
    assert (sample("lag_entries", target="s2"), sample("lag_seconds", target="s2")) == (0, 0)
    meter.unreachable("s2", 9_000)
    assert (sample("lag_entries", target="s2"), sample("lag_seconds", target="s2")) == (0, 4)
    meter.skipped("s1", "s2", {"spelling": 2})
    assert sample("skipped_entries", target="s2", reason="spelling") == 2
    meter.skipped("s1", "s2", {})
    assert sample("skipped_entries", target="s2", reason="spelling") == 0
    meter.written("s1", "s2", 4)
    assert sample("entries_total", target="s2") == 4
    assert sample("acting") == 1
    meter.acting(False)
    assert sample("acting") == 0
    assert sample("lag_entries", target="s2") is None


def test_one_that_has_ended_says_nothing_of_how_it_goes():
    meter = SchemaMeter("s5")
    meter.acting(True)
    meter.lag("s6", 3, 1_000)
    meter.skipped("s5", "s6", {"spelling": 2})
    meter.written("s5", "s6", 4)
    meter.close()
    told = {
        sample.name
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.labels.get("source") == "s5"
    }
    assert told == {"distributor_schema_entries_total", "distributor_schema_entries_created"}
