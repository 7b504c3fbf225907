from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_page_until_a_signal_ends_it(four, number):
    words = [sys.executable, "-m", "distributor", "dashboard", str(four), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        url = re.search(r"http://\S+/", running.stderr.readline())[0]
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"<h1" in answer.read()
        running.send_signal(number)
        _, error = running.communicate(timeout=20)
    assert (running.returncode, error) == (0, "")


def test_where_nothing_can_be_served_is_refused(run, four):
    code, out, error = run("dashboard", four, "--listen", "here")
    assert (code, out) == (2, "")
    assert error == "distributor: cannot serve the page at 'here': expected HOST:PORT\n"
