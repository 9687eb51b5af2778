"""Connections to the database that fall silent: their packets vanish, and nobody is told. New
connections work. Submits and claims have to go on."""

import random
import secrets
import threading
import time

from .administrator import Administrator
from .caller import Caller, Server
from .history import REFUSED, Recorder
from .world import TENANTS

STALL_S_MAX = 3.0
BEFORE_S = 1.0
WATCHED_S = 5.0
# Far longer than any stall: a client that gives up would not see how long it was.
PATIENCE_S = 120
SUBMITTERS = 4
WORKERS = 4
SINGLE_MAX = 10
# So that there is something to claim when submits stall.
WAITING = 3_000


class Load:
    """Submits, claims and completes at one server, and notes how long each call took."""

    def __init__(self, world, server, key):
        self.server = Server(*next(one for one in world.addresses() if one[0] == server))
        self.key, self.history = key, f"{world.directory}/load.history"
        self.recorder = Recorder(self.history, "load")
        self.stopping = threading.Event()
        self.lock, self.open, self.done = threading.Lock(), {}, []
        targets = [self.submit] * SUBMITTERS + [self.work] * WORKERS
        self.threads = [
            threading.Thread(target=target, args=(number,), daemon=True)
            for number, target in enumerate(targets)
        ]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def caller(self, number):
        return Caller(
            [self.server], self.key, self.recorder, random.Random(number), timeout_s=PATIENCE_S
        )

    def timed(self, calls, verb, *call):
        begun = time.monotonic()
        with self.lock:
            self.open[threading.get_ident()] = begun
        outcome, answer = calls.call(verb, *call, show=lambda _: {})
        with self.lock:
            del self.open[threading.get_ident()]
            self.done.append((verb, begun, time.monotonic()))
        return outcome, answer

    def submit(self, number):
        calls = self.caller(number)
        while not self.stopping.is_set():
            self.timed(
                calls,
                "submit",
                "POST",
                "/api/v1/runs",
                {
                    "namespace": TENANTS[0],
                    "queue": "load",
                    "type": "load",
                    "idempotency_key": secrets.token_hex(8),
                },
            )

    def work(self, number):
        calls, path, claim_no = self.caller(number), None, 0
        body = {
            "namespace": TENANTS[0],
            "queues": ["load"],
            "types": ["load"],
            "max_concurrent": 100,
        }
        while not self.stopping.is_set():
            if path is None:
                _, worker = calls.call("register", "POST", "/api/v1/workers", body)
                path, claim_no = f"/api/v1/workers/{worker['worker_id']}/claim", 0
            claim_no += 1
            outcome, answer = self.timed(calls, "claim", "POST", path, {"claim_no": claim_no})
            if outcome == REFUSED:
                # It sends no heartbeats: a stall has made it a silent worker.
                path = None
            elif answer["runs"]:
                runs = [{"run_id": run["run_id"], "lease": run["lease"]} for run in answer["runs"]]
                self.timed(calls, "complete", "POST", "/api/v1/runs/complete", {"runs": runs})

    def wait_for_calls_of(self, moment):
        """Until every call that was under way at this moment is answered."""
        while any(begun < moment for begun in list(self.open.values())):
            time.sleep(0.05)

    def longest(self, since):
        """The longest call of each verb that ended since then."""
        with self.lock:
            found = {verb: 0.0 for verb in ("submit", "claim", "complete")}
            for verb, begun, ended in self.done:
                if ended >= since:
                    found[verb] = max(found[verb], ended - begun)
            return found


def play(world, dice):
    if world.postgres is None:
        raise SystemExit("dead_connection needs --store postgres")
    administrator = Administrator(world, world.start_servers())
    server = next(iter(world.servers))
    load = Load(world, server, administrator.make_key(TENANTS[0]))
    load.start()
    worst, had = 0.0, set()
    try:
        # Each connection by itself, as which ones are busy is up to the server; then several.
        for share in [0.0] * SINGLE_MAX + [0.5, 1.0]:
            ports = world.network.connections(server, world.postgres.PORT)
            dice.shuffle(ports)
            chosen = ports[: round(len(ports) * share)]
            if not share:
                chosen = [port for port in ports if port not in had][:1]
                had.update(chosen)
            if not chosen:
                continue
            administrator.fill(TENANTS[0], "load", WAITING)
            time.sleep(BEFORE_S)
            since = time.monotonic()
            rules = world.network.cut_connections(server, "db", chosen)
            time.sleep(WATCHED_S)
            load.wait_for_calls_of(since + WATCHED_S)
            world.network.heal(rules)
            found = load.longest(since)
            worst = max(worst, *found.values())
            print(
                f"{len(chosen)} of {len(ports)} connections dead: longest "
                + ", ".join(f"{verb} {seconds:.2f} s" for verb, seconds in found.items()),
                flush=True,
            )
    finally:
        load.stopping.set()
    load.stop()
    print(f"\nseed                   {world.seed}")
    print(f"longest stall          {worst:.2f} s (at most {STALL_S_MAX:.0f} s)")
    return worst <= STALL_S_MAX
