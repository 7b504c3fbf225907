"""What speaks HTTP, with tokens and a certificate, asked by a real Prometheus and by our tools."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request

import pytest
import yaml

from dafka.process.files import write_secret
from tests.support.certificates import write_web
from tests.support.topologies import is_about_room

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def secured(topology_file, tmp_path):
    """Two clusters of the file, with tokens and a certificate."""
    _, tokens = write_web(tmp_path, tls=True, ops=["metrics", "dashboard"], shop=["schemas"])
    for name, token in tokens.items():
        write_secret(tmp_path / f"{name}.token", token)
    declared = yaml.safe_load(topology_file.read_text())
    declared["clusters"] = declared["clusters"][:2]
    declared["tree"] = {"level": 1, "children": ["c1", "c2"]}
    declared["web"] = {"access": "web.toml", "token": "ops.token"}
    topology_file.write_text(yaml.safe_dump(declared))
    return declared["metrics"]["first_port"]


def doctor(file):
    words = (sys.executable, "-m", "distributor", "doctor", str(file), "--json")
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    findings = json.loads(told.stdout)["findings"]
    return told.returncode, [one for one in findings if not is_about_room(one["what"])]


def test_our_tools_show_the_token_and_say_where_it_is_not_good(
    secured, topology_file, up, wait_until
):
    wait_until(lambda: doctor(topology_file)[1] == [], "all is well")
    text = topology_file.read_text()
    topology_file.write_text(text.replace("ops.token", "shop.token"))
    code, findings = doctor(topology_file)
    assert code == 1
    assert len(findings) == 6
    assert all("shop's token is not good for metrics" in one["what"] for one in findings)
    assert "dafka keys NAME --web metrics" in findings[0]["do"]


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus: make tools")
def test_prometheus_scrapes_with_its_token(secured, up, tmp_path, wait_until):
    jobs = {
        name: {
            "job_name": name,
            "scheme": "https",
            "authorization": {"credentials_file": str(tmp_path / f"{name}.token")},
            "tls_config": {"ca_file": str(tmp_path / "web.crt")},
            "static_configs": [{"targets": [f"127.0.0.1:{secured}"]}],
        }
        for name in ("ops", "shop")
    }
    config = tmp_path / "prometheus.yml"
    whole = {"global": {"scrape_interval": "1s"}, "scrape_configs": list(jobs.values())}
    config.write_text(yaml.safe_dump(whole))
    port = secured + 30
    running = subprocess.Popen(
        [
            *("prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"),
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        ],
        stderr=subprocess.DEVNULL,
    )

    def health():
        try:
            url = f"http://127.0.0.1:{port}/api/v1/targets"
            with urllib.request.urlopen(url, timeout=60) as answer:
                found = json.load(answer)["data"]["activeTargets"]
        except OSError:
            return {}
        return {one["labels"]["job"]: (one["health"], one["lastError"]) for one in found}

    try:
        refused = "server returned HTTP status 403 Forbidden"
        wait_until(
            lambda: health() == {"ops": ("up", ""), "shop": ("down", refused)},
            "it scrapes, with the right",
            evidence=health,
        )
    finally:
        running.terminate()
        running.wait(120)
