"""Help can be read at 60 columns: it wraps, and nothing is cut off."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from typer.main import get_command

import dafka.cli.main
import distributor.cli.main
import topology.cli

APPS = {
    "dafka": dafka.cli.main.app,
    "distributor": distributor.cli.main.app,
    "topology": topology.cli.app,
}
WIDTH = 60


def parts(name, command, above=None):
    context = command.context_class(command, info_name=name, parent=above, terminal_width=WIDTH)
    yield context.command_path, command, context
    for below, one in getattr(command, "commands", {}).items():
        yield from parts(below, one, context)


PARTS = [part for name, app in APPS.items() for part in parts(name, get_command(app))]
EACH = pytest.mark.parametrize(
    ("name", "command", "context"), PARTS, ids=[one for one, *_ in PARTS]
)


@EACH
def test_help_fits_and_nothing_of_it_is_cut_off(name, command, context):
    text = command.get_help(context)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    assert "<bool>" not in text
    assert not re.search(r"\w\.\.\.$|\w…|[╭│╰]", text.replace("[ARGS]...", ""), re.MULTILINE)
    for option in command.params:
        for spelt in option.opts if option.param_type_name == "option" else ():
            assert spelt in text


@EACH
def test_paragraphs_are_filled(name, command, context):
    head, _, _ = command.get_help(context).partition("\n\nOptions:")
    described = head.partition("\n\nArguments:")[0].splitlines()
    for line, following in pairwise(described[1:]):
        if line.strip() and following.strip():
            assert len(line) + 1 + len(following.split()[0]) > WIDTH - 2, line


@EACH
def test_a_list_of_commands_says_what_each_does_to_the_end(name, command, context):
    words = " ".join(command.get_help(context).split())
    for below, one in getattr(command, "commands", {}).items():
        first, _, _ = one.help.partition("\n\n")
        assert f"{below} {first}" in words
