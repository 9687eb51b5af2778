"""Receives webhooks, checks them with the libraries of Standard Webhooks and CloudEvents, and prints a line for each.

usage: receiver.py SECRET [slow]
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cloudevents.v1.http import from_http
from standardwebhooks import Webhook

SECRET, SLOW = sys.argv[1], sys.argv[2:] == ["slow"]
LOCK = threading.Lock()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            Webhook(SECRET).verify(body, headers)
            event = from_http(headers, body)
            assert headers["webhook-id"] == event["id"], "the ids differ"
            told = {"id": event["id"], "type": event["type"], "subject": event.get("subject"), "data": event.data}
            status = 204
        except Exception as error:
            told, status = {"error": f"{type(error).__name__}: {error}"}, 400
        with LOCK:
            # In one piece: calls come at the same time.
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
        if SLOW:
            time.sleep(0.2)
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(f"receives on {server.server_port}", flush=True)
server.serve_forever()
