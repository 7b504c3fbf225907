from __future__ import annotations

import logging

import pytest

from dafka.errors import MisuseError
from dafka.spark.given import Given


def test_names_are_in_whatever_case_and_what_is_not_said_is_none():
    given = Given({"TOPIC": "a", "servers": "tcp://h:1, tcp://h:2"})
    assert (given.text("topic"), given.text("other")) == ("a", None)
    assert given.endpoints("Servers") == ("tcp://h:1", "tcp://h:2")
    assert (given.number("other"), given.duration_ms("other")) == (None, None)
    assert given.flag("other", default=True)


def test_unknown_options_are_refused_with_the_nearest_one():
    with pytest.raises(MisuseError, match="did you mean 'topic'"):
        Given({"topics": "a"}).check_names(["topic"], told=True)


def test_a_table_says_what_to_create_instead():
    for given in ({"provider": "dafka", "option.topic": "a"}, {}):
        with pytest.raises(MisuseError, match="say CREATE TEMPORARY VIEW in place of CREATE TABLE"):
            Given(given).check_names(["topic"], told=True)


def test_what_only_kafka_knows_is_passed_over_and_told_once_it_matters(caplog):
    given = Given({"groupIdPrefix": "a", "kafka.client.id": "b", "topic": "c"})
    caplog.set_level(logging.WARNING)
    given.check_names(["topic"], told=False)
    assert caplog.text == ""
    given.check_names(["topic"], told=True)
    assert "groupidprefix" in caplog.text
    assert "kafka.client.id" in caplog.text


@pytest.mark.parametrize(
    ("name", "text"),
    [("kafka.security.protocol", "SSL"), ("kafka.sasl.jaas.config", "x")],
)
def test_what_keeps_strangers_out_is_refused(name, text):
    with pytest.raises(MisuseError, match=f"'{name}' .* who the job is by 'access' and 'key'"):
        Given({name: text}).check_names(["topic"], told=True)


def test_that_nothing_is_encrypted_may_be_said():
    Given({"kafka.security.protocol": "plaintext"}).check_names([], told=True)


@pytest.mark.parametrize("text", ["", "-1", "0", "1.5", "²", "9" * 30])
def test_what_is_no_number(text):
    with pytest.raises(MisuseError, match="'n' must be a whole number above 0"):
        Given({"n": text}).number("n")


@pytest.mark.parametrize("text", ["", "m", "5 weeks", "-5s", "1.5h"])
def test_what_is_no_time(text):
    with pytest.raises(MisuseError, match="'t' must be a number and one of ms, s, m, min, h, d"):
        Given({"t": text}).duration_ms("t")
