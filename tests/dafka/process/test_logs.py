from __future__ import annotations

import json
import logging

import pytest

from dafka.errors import MisuseError
from dafka.process.logs import JsonFormatter, KeyValueFormatter, LineFormat, set_up_logs


def line(message, *arguments, exc_info=None, **facts):
    record = logging.LogRecord("dafka.x", logging.INFO, "f", 1, message, arguments, exc_info)
    vars(record).update(facts)
    return KeyValueFormatter().format(record)


def test_a_line_has_time_level_logger_message_and_facts():
    text = line("store is %s", "up", address="AB", batches=3)
    assert text.endswith(" INFO dafka.x: store is up address=AB batches=3")


def test_a_line_without_facts_ends_with_its_message():
    assert line("up").endswith("dafka.x: up")


@pytest.mark.parametrize(
    "evil", ["a\nb", "a\rb", "\x1b[31mred", "a\0b", "\u2028", "\x85", "\udcff"]
)
def test_control_characters_are_escaped_in_messages_and_facts(evil):
    text = line("topic %s", evil, topic=evil)
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    text.encode()


def test_a_traceback_follows_the_line():
    try:
        int("reason")
    except ValueError as error:
        text = line("failed", exc_info=(type(error), error, error.__traceback__))
    first, *rest = text.splitlines()
    assert first.endswith("failed")
    assert rest[-1] == "ValueError: invalid literal for int() with base 10: 'reason'"


def test_lines_below_the_level_are_not_shown(capsys):
    set_up_logs("warning")
    log = logging.getLogger("dafka.test")
    log.info("quiet")
    log.warning("loud", extra={"topic": "a\nb"})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.endswith("loud topic=a\\nb\n")


def test_setting_up_twice_shows_a_line_once(capsys):
    set_up_logs("info")
    set_up_logs("INFO")
    logging.getLogger("dafka.test").info("once")
    assert capsys.readouterr().err.count("once") == 1


@pytest.mark.parametrize("level", ["loud", "", "info "])
def test_an_unknown_level_is_refused(level):
    with pytest.raises(MisuseError, match="level"):
        set_up_logs(level)


def test_a_line_of_json_has_all_of_it(capsys):
    set_up_logs("info", LineFormat.JSON)
    logging.getLogger("dafka.test").info("store is %s", "up", extra={"address": "A\nB", "n": 3})
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "info",
        "logger": "dafka.test",
        "message": "store is up",
        "address": "A\nB",
        "n": 3,
    }


def test_what_json_does_not_know_and_tracebacks_are_text():
    try:
        int("reason")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("dafka.x", logging.ERROR, "f", 1, "failed", (), info)
    vars(record).update(level="mine", kind=LineFormat.JSON)
    found = json.loads(JsonFormatter().format(record))
    assert found["level"] == "error"
    assert found["fact_level"] == "mine"
    assert found["kind"] == "LineFormat.JSON"
    assert found["traceback"].endswith("invalid literal for int() with base 10: 'reason'")


def test_libraries_are_heard_from_warnings_on(capsys):
    set_up_logs("debug")
    logging.getLogger("dafka.node").debug("ours")
    logging.getLogger("py4j.java_gateway").info("chatter")
    logging.info("more of it")  # noqa: LOG015 as py4j does
    logging.getLogger("py4j").warning("heard")
    shown = capsys.readouterr().err
    assert "ours" in shown
    assert "chatter" not in shown
    assert "more of it" not in shown
    assert "heard" in shown
