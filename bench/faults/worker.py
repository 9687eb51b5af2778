"""A worker over plain HTTP: claims, heartbeats, and reports, each repeated after a lost answer."""

import queue
import secrets
import threading
import time

from .caller import caller
from .history import OK

HANDS = 3
HELD_MAX = 6
WAIT_MS = 1_000
GONE = {"worker_offline", "unknown_worker", "not_found"}


class Worker:
    """Settings: `types`, `queues`, `numbered` (has claim_no), `tells_all` (heartbeats with all)."""

    def __init__(self, settings, stopping):
        self.settings, self.stopping = settings, stopping
        self.lock = threading.Lock()
        # By run and epoch: a run that was given back may come again before that is answered.
        self.held = {}
        self.work = queue.Queue()
        self.worker_id = None
        self.generation = 0
        self.calls = caller(settings, "claims", lost=0.05, roams=0.2, timeout_s=WAIT_MS / 1000 + 1)

    def run(self):
        self.register()
        for number in range(HANDS):
            threading.Thread(target=self.do_work, args=(number,), daemon=True).start()
        threading.Thread(target=self.beat, daemon=True).start()
        number = 0
        while not self.stopping.is_set():
            if len(self.held) >= HELD_MAX:
                time.sleep(0.02)
                continue
            number += 1
            number = self.claim(number)
        deadline = time.monotonic() + 3
        while self.held and time.monotonic() < deadline:
            time.sleep(0.05)

    def register(self):
        """Every registration is a new worker. What the one before held is forgotten, though the
        hands that work on it may not have noticed yet: zombies, whose writes must be refused."""
        body = {
            "namespace": self.settings["namespace"],
            "name": self.settings["name"],
            "queues": self.settings["queues"],
            "types": self.settings["types"],
            "max_concurrent": 1_000,
            "instance": secrets.token_hex(8),
        }
        outcome, answer = self.calls.call(
            "register",
            "POST",
            "/api/v1/workers",
            body,
            namespace=self.settings["namespace"],
            goes_on=lambda: not self.stopping.is_set(),
        )
        if outcome == OK:
            with self.lock:
                self.worker_id, self.generation = answer["worker_id"], self.generation + 1
                self.held.clear()

    def claim(self, number):
        """One claim, repeated until it is answered. Returns the number of the last claim."""
        dice, worker, generation = self.calls.dice, self.worker_id, self.generation
        body = {
            "queue": dice.choice(self.settings["queues"]),
            "max": dice.randint(1, 3),
            "wait_ms": WAIT_MS,
        }
        if self.settings["numbered"]:
            body |= {"claim_no": number, "start": dice.random() < 0.5}
        outcome, answer = self.calls.call(
            "claim",
            "POST",
            f"/api/v1/workers/{worker}/claim",
            body,
            show=shown_claim,
            worker=worker,
            namespace=self.settings["namespace"],
            queues=self.asked(body["queue"]),
            types=self.settings["types"],
            claim_no=body.get("claim_no"),
            goes_on=lambda: not self.stopping.is_set(),
        )
        if outcome != OK:
            if answer.get("code") in GONE:
                self.register()
                return 0
            time.sleep(0.05)
            return number
        fresh = []
        with self.lock:
            for run in answer["runs"]:
                # Without numbers, what is not started yet may come twice.
                if generation == self.generation and lease_of(run) not in self.held:
                    self.held[lease_of(run)] = run
                    fresh.append(run)
        for run in fresh:
            if not self.settings["numbered"]:
                self.report(self.calls, "start", run)
            self.work.put(run)
        return number

    def asked(self, queue):
        """The queues that may come: without numbers, what was lost of any queue comes first."""
        return [queue] if self.settings["numbered"] else self.settings["queues"]

    def beat(self):
        calls = caller(self.settings, "beats", lost=0.05, roams=0.2, timeout_s=1.0)
        while True:
            worker = self.worker_id
            with self.lock:
                # An answer names runs: of two leases of one run, the newer one is meant.
                held = {run["run_id"]: run for _, run in sorted(self.held.items())}
            held, by_run = list(held.values()), held
            body = {"leases": [{"run_id": run["run_id"], "lease": run["lease"]} for run in held]}
            # A claim whose answer is under way is younger than a lease: it is not put back.
            if self.settings["tells_all"]:
                body["all"] = True
            outcome, answer = calls.call(
                "heartbeat",
                "POST",
                f"/api/v1/workers/{worker}/heartbeat",
                body,
                worker=worker,
                leases=[[run["run_id"], run["epoch"]] for run in held],
                all=self.settings["tells_all"],
                goes_on=lambda: False,
            )
            for why in ("lost", "cancelling") if outcome == OK else ():
                # Cancelling are also those that it has not heard of yet.
                for run in by_run.keys() & answer[why]:
                    by_run[run]["to_stop"] = why
            time.sleep(self.settings["beat_s"] * calls.dice.uniform(0.7, 1.0))

    def do_work(self, number):
        calls = caller(self.settings, f"hand-{number}", lost=0.08, roams=0.2)
        dice = calls.dice
        while True:
            run = self.work.get()
            time.sleep(dice.uniform(0, 0.3) if dice.random() < 0.9 else dice.uniform(0, 3))
            stop = run.get("to_stop")
            # Some do not listen, and write although they were told that they hold it no more.
            if stop == "lost" and dice.random() < 0.5:
                pass
            elif stop == "cancelling":
                self.report(calls, "give_back", run, reason="cancelled")
            else:
                self.finish(calls, run)
            self.let_go([run])

    def finish(self, calls, run):
        choice = calls.dice.random()
        if choice < 0.06:
            self.report(calls, "fail", run, error="seeded")
        elif choice < 0.08:
            self.report(calls, "fail", run, error="seeded, for good", retryable=False)
        elif choice < 0.13:
            self.report(calls, "give_back", run, reason="seeded")
        elif choice < 0.5:
            self.report(calls, "complete", run, output={"token": secrets.token_hex(8)})
        else:
            self.complete_several(calls, run)

    def report(self, calls, verb, run, **said):
        calls.call(
            verb,
            "POST",
            f"/api/v1/runs/{run['run_id']}/{verb}",
            {"lease": run["lease"], **said},
            run=run["run_id"],
            epoch=run["epoch"],
            worker=self.settings["name"],
            token=said.get("output", {}).get("token"),
            retryable=said.get("retryable", True),
        )

    def complete_several(self, calls, run):
        """Completes it together with what else is ready, in one batch."""
        several = [run]
        while len(several) < 3:
            try:
                several.append(self.work.get_nowait())
            except queue.Empty:
                break
        operations, entries = [], []
        for one in several:
            token = secrets.token_hex(8)
            operations.append(
                calls.recorder.begin(
                    "complete",
                    run=one["run_id"],
                    epoch=one["epoch"],
                    worker=self.settings["name"],
                    token=token,
                )
            )
            entries.append(
                {"run_id": one["run_id"], "lease": one["lease"], "output": {"token": token}}
            )
        calls.repeat(
            operations,
            "POST",
            "/api/v1/runs/complete",
            {"runs": entries},
            lambda answer: answer["runs"],
        )
        self.let_go(several)

    def let_go(self, runs):
        with self.lock:
            for run in runs:
                self.held.pop(lease_of(run), None)


def lease_of(run):
    return run["run_id"], run["epoch"]


def shown_claim(answer):
    """What the checker reads of a claimed run."""
    return {
        "runs": [
            {
                "run": run["run_id"],
                "epoch": run["epoch"],
                "lease": run["lease"],
                "type": run["type"],
                "queue": run["queue"],
                "input": run.get("input"),
            }
            for run in answer["runs"]
        ]
    }
