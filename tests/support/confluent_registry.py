"""A server that gives prepared answers, whatever it is asked."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def answering(*answers):
    """Answer with these codes and bodies, one after the other; the server has its `url`."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            code, body = left.pop(0)
            server.authorizations.append(self.headers["Authorization"])
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            """Nothing: that is for people."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.authorizations = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
    assert not left
