from __future__ import annotations

from dafka.node.web import WebServer, bind
from dafka.schemas.application import application
from dafka.schemas.running import RunningRegistry


def test_it_is_ready_while_its_log_answers_and_well_while_it_serves(registry_of):
    service = registry_of()
    bound, _ = bind("127.0.0.1:0", "the registry")
    with WebServer(application(service), bound) as server:
        running = RunningRegistry(service, server)
        service.look()
        assert (running.unwell(), running.unready()) == ("", "")
        service._log.reachable = False
        service.look()
        assert "stores can be read" in running.unready()
        service._log.reachable = True
        service.look()
        assert (running.unready(), running.join(0)) == ("", False)
    assert running.join(0)
    assert running.unwell() == "the registry no longer serves"
