"""HTTP calls as careful clients make them: with time limits, repeated with the same identity until
they are answered, at whichever server answers, and written into a history."""

import http.client
import json
import random
import time

from .history import OK, REFUSED, UNKNOWN, Recorder

CONNECT_S = 0.7
PAUSE_S = 0.1
# Answers that may hide a call that was carried out (docs/errors.md), or that ask to come again.
UNDECIDED = {429, 500, 502, 503, 507}


class Server:
    """Where a server listens."""

    def __init__(self, name, address, port):
        self.name, self.address, self.port = name, address, port


class Caller:
    """Calls of one thread, over one connection.

    `lost` is the share of calls whose answer this client itself throws away. `roams` is the
    share of calls for which it goes to another server without need, as behind a load balancer.
    """

    def __init__(self, servers, key, recorder, dice, lost=0.0, roams=0.0, timeout_s=2.0):
        self.servers, self.key, self.recorder, self.dice = servers, key, recorder, dice
        self.lost, self.roams, self.timeout_s = lost, roams, timeout_s
        self.server = dice.choice(servers)
        self.connection = None

    def call(
        self,
        verb,
        method,
        path,
        body=None,
        show=lambda answer: answer,
        goes_on=None,
        timeout_s=None,
        **what,
    ):
        """Tries until there is an answer that decides, or `goes_on` says no. Returns the outcome
        and the answer; `show` picks what of it goes into the history."""
        operation = self.recorder.begin(verb, **what)
        return self.repeat(
            [operation], method, path, body, lambda answer: [show(answer)], goes_on, timeout_s
        )

    def repeat(self, operations, method, path, body, show, goes_on=None, timeout_s=None):
        """As `call`, for several operations in one request. `show` gives one answer for each,
        in which a `code` means that this one was refused."""
        while True:
            server = self._choose()
            for operation in operations:
                self.recorder.invoke(operation, server.name)
            outcome, status, answer = self._once(server, method, path, body, timeout_s)
            shown = show(answer) if outcome == OK else [answer] * len(operations)
            for operation, part in zip(operations, shown, strict=True):
                refused = outcome == OK and "code" in part
                self.recorder.end(operation, REFUSED if refused else outcome, part, status)
            if outcome != UNKNOWN or (goes_on is not None and not goes_on()):
                return outcome, answer
            time.sleep(PAUSE_S * self.dice.uniform(0.5, 1.5))

    def _choose(self):
        if len(self.servers) > 1 and self.dice.random() < self.roams:
            self._leave()
        return self.server

    def _leave(self):
        """The next call goes to another server, if there is one, and over a new connection."""
        self._close()
        others = [server for server in self.servers if server is not self.server]
        if others:
            self.server = self.dice.choice(others)

    def _close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def _once(self, server, method, path, body, timeout_s):
        """One request: outcome, status and the answer's JSON."""
        try:
            if self.connection is None:
                fresh = http.client.HTTPConnection(server.address, server.port, timeout=CONNECT_S)
                fresh.connect()
                self.connection = fresh
            self.connection.sock.settimeout(timeout_s or self.timeout_s)
            headers = {"X-API-Key": self.key, "Content-Type": "application/json"}
            text = None if body is None else json.dumps(body)
            self.connection.request(method, path, text, headers)
            if self.dice.random() < self.lost:
                time.sleep(self.dice.uniform(0, 0.03))
                self._leave()
                return UNKNOWN, 0, {"lost": "by the client"}
            response = self.connection.getresponse()
            content = response.read()
            if response.will_close:
                self._close()
            answer = json.loads(content) if content else {}
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._leave()
            return UNKNOWN, 0, {"lost": type(error).__name__}
        if response.status < 300:
            return OK, response.status, answer
        if response.status in UNDECIDED:
            if response.status != 429:
                self._leave()
            return UNKNOWN, response.status, answer
        return REFUSED, response.status, answer


def caller(settings, name, **options):
    """A caller of a client process, from the settings that the driver gave it."""
    servers = [Server(*server) for server in settings["servers"]]
    dice = random.Random(f"{settings['seed']}/{settings['name']}/{name}")
    return Caller(servers, settings["key"], recorder_of(settings), dice, **options)


_recorders = {}


def recorder_of(settings):
    """The history of this process; one for all its threads."""
    path = settings["history"]
    if path not in _recorders:
        _recorders[path] = Recorder(path, settings["name"])
    return _recorders[path]
