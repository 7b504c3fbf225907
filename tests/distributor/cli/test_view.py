"""Tables show names as data, never as markup, and say what matters."""

from __future__ import annotations

from rich.console import Console

from distributor.cli.view import DIFFERENCES_SHOWN_MAX, status_view, up_view, verdict_view
from distributor.processes import Kind, Process
from distributor.status import ClusterStatus, LinkStatus, Status
from distributor.supervisor import Child
from distributor.verify import Verdict

HOSTILE = "[red]x[/red]"


def shown(renderable) -> str:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def status(error=""):
    return Status(
        clusters=[ClusterStatus(HOSTILE, 3, 1_234, error)],
        links=[LinkStatus(HOSTILE, "c2", 3, 1, 5_678, 2.25, error)],
    )


def test_status_shows_lag_and_names_as_they_are():
    text = shown(status_view(status()))
    for part in (HOSTILE, "1,234", "5,678", "2.2", "ok"):
        assert part in text


def test_status_shows_why_nothing_is_known():
    assert "no answer [bold]" in shown(status_view(status("no answer [bold]")))


def test_up_shows_every_process_and_its_deaths():
    process = Process(
        name="c1-store-1", kind=Kind.STORE, cluster="c1", command=(), metrics="127.0.0.1:9"
    )
    dead = Child(process, restarts=2, last_exit="signal 9")
    text = shown(up_view([dead], status()))
    for part in ("c1-store-1", "store", "restarts in", "2 (signal 9)", "127.0.0.1:9", "Ctrl-C"):
        assert part in text


def test_an_equal_verdict_says_what_was_read():
    verdict = Verdict({"c1": 5, "c2": 5}, partitions=2, records=10)
    assert "equal: 2 partitions" in shown(verdict_view(verdict))


def test_a_long_list_of_differences_is_cut_and_says_so():
    verdict = Verdict({"c1": 5}, differences=[f"difference {HOSTILE} {n}" for n in range(30)])
    text = shown(verdict_view(verdict))
    assert f"difference {HOSTILE} {DIFFERENCES_SHOWN_MAX - 1}" in text
    assert f"difference {HOSTILE} {DIFFERENCES_SHOWN_MAX}" not in text
    assert f"and {30 - DIFFERENCES_SHOWN_MAX} more" in text
