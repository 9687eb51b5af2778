"""What the driver asks the servers for: from a host that no fault hits, in quiet times only."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from .caller import Caller, Server
from .checker import Lease, Stored
from .history import OK, UNKNOWN, Recorder

READERS = 4
PATIENCE_S = 60


class Administrator:
    def __init__(self, world, key):
        self.key = key
        self.recorder = Recorder(f"{world.directory}/administrator.history", "administrator")
        self.servers = [Server(*address) for address in world.addresses()]
        self.calls = self.caller()

    def caller(self):
        return Caller(
            self.servers, self.key, self.recorder, random.Random(0), roams=0.5, timeout_s=10
        )

    def ask(self, method, path, body=None, calls=None):
        """The answer; None when it was refused."""
        deadline = time.monotonic() + PATIENCE_S
        outcome, answer = (calls or self.calls).call(
            "administrator",
            method,
            path,
            body,
            show=lambda _: {},
            goes_on=lambda: time.monotonic() < deadline,
        )
        if outcome == UNKNOWN:
            raise RuntimeError(
                f"{method} {path}: no answer for {PATIENCE_S} s though no fault is under way"
            )
        return answer if outcome == OK else None

    def make_key(self, tenant):
        body = {"name": tenant, "scopes": ["submit", "worker", "read"], "namespace": tenant}
        return self.ask("POST", "/api/v1/keys", body)["key"]

    def fill(self, namespace, name, count):
        """Sees to it that so many runs wait in the queue of this name, of the type of this name."""
        view = self.ask("GET", f"/api/v1/queues/{name}?namespace={namespace}")
        missing = count - (view["ready"] if view else 0)
        if missing > 0:
            run = {
                "namespace": namespace,
                "queue": name,
                "type": name,
                "input": {"namespace": namespace},
                "max_losses": 10_000,
            }
            self.ask("POST", "/api/v1/runs/batch", {"runs": [run] * missing})

    def read_all(self, runs):
        """Every run as it is stored. Read by several threads, each with its own connection."""

        def read(share):
            calls, found = self.caller(), {}
            for run in share:
                view = self.ask("GET", f"/api/v1/runs/{run}", calls=calls)
                found[run] = stored(view) if view else Stored(None)
            return found

        shares, found = [runs[number::READERS] for number in range(READERS)], {}
        with ThreadPoolExecutor(READERS) as readers:
            for part in readers.map(read, shares):
                found |= part
        return found

    def leases(self, run, clock_offset_s):
        """The leases of a run, from the store's own history."""
        events = (self.ask("GET", f"/api/v1/runs/{run}/history") or {"events": []})["events"]
        found = {}
        for event in events:
            at = datetime.fromisoformat(event["at"]).timestamp() - clock_offset_s
            if event["event"] == "claimed":
                found[event["epoch"]] = Lease(run, event["epoch"], event["worker_id"], at, None)
            elif event["event"] == "lease_ended" and event.get("epoch") in found:
                found[event["epoch"]].ended = at
        return list(found.values())


def stored(view):
    output = view.get("output")
    token = output.get("token") if isinstance(output, dict) else None
    return Stored(view["state"], view["epoch"], token, view.get("worker_id"), view.get("reason"))
