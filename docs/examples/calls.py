"""Calls to a slow web service, as many as its rate limit allows: ``python calls.py``."""

import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from recompose import Stage, pipeline, run

LIMIT_PER_S, CALLS, ANSWER_S = 40, 160, 0.3


class Slow(BaseHTTPRequestHandler):
    """A service that takes 0.3 s for an answer, and refuses calls beyond its limit."""

    protocol_version = "HTTP/1.1"
    calls = deque(maxlen=LIMIT_PER_S + 10)  # 10 more than the limit may come at once

    def do_GET(self):
        now = time.monotonic()
        refused = len(self.calls) == self.calls.maxlen and now - self.calls[0] < 1
        self.calls.append(now)
        time.sleep(0 if refused else ANSWER_S)
        self.send_response(429 if refused else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


class Service(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 100


server = Service(("127.0.0.1", 0), Slow)
url = f"http://127.0.0.1:{server.server_port}"
client = httpx.AsyncClient()


async def call(number):
    """Call the service. An error is tried again twice, and then it is the result of this item alone."""
    answer = await client.get(f"{url}/{number}")
    answer.raise_for_status()
    return number, answer.status_code


app = pipeline((Stage("call", concurrency=20), call))

if __name__ == "__main__":
    threading.Thread(target=server.serve_forever, daemon=True).start()
    began = time.monotonic()
    results = list(run(app, source=range(CALLS), rate=LIMIT_PER_S, pool="local"))
    took = time.monotonic() - began
    failed = sum(result.error is not None for result in results)
    print(f"{len(results)} calls in {took:.1f} s: {len(results) / took:.0f}/s, {failed} failed")
    print(f"one after the other they would take {CALLS * ANSWER_S:.0f} s")
