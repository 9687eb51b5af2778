"""The client processes: python3 -m faults.clients SETTINGS, with settings as JSON.

A client works until it gets SIGTERM, and then finishes what it has begun.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
import traceback

from .caller import caller, recorder_of
from .history import OK, UNKNOWN
from .worker import Worker, shown_claim

# Generous, so that no run ends because of the faults: only by what a client said.
PATIENT = {
    "max_losses": 10_000,
    "retry": {"max_attempts": 1_000, "first_interval_ms": 100, "max_interval_ms": 500},
}
RECENT = 200


class Submitter:
    """Submits, reads and cancels. Some submits are sent twice at the same time, with one key."""

    THREADS = 2

    def __init__(self, settings, stopping):
        self.settings, self.stopping = settings, stopping

    def run(self):
        threads = [
            threading.Thread(target=self.submit_and_look, args=(number,))
            for number in range(self.THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def submit_and_look(self, number):
        calls = caller(self.settings, f"submit-{number}", lost=0.08, roams=0.3)
        twin = caller(self.settings, f"twin-{number}", lost=0.08, roams=0.3)
        dice, recent = calls.dice, []
        while not self.stopping.is_set():
            key = f"{self.settings['name']}-{secrets.token_hex(6)}"
            body = {
                "namespace": self.settings["namespace"],
                "idempotency_key": key,
                "queue": dice.choice(self.settings["queues"]),
                "type": dice.choice(self.settings["types"]),
                "priority": dice.choice([3, 5, 5, 7]),
                "input": {"namespace": self.settings["namespace"], "key": key},
                **PATIENT,
            }
            second = None
            if dice.random() < 0.1:
                second = threading.Thread(target=submit, args=(twin, body))
                second.start()
            outcome, answer = submit(calls, body)
            if second is not None:
                second.join()
            if outcome == OK:
                recent = (recent + [answer["id"]])[-RECENT:]
            if recent and dice.random() < 0.5:
                self.look(calls, dice.choice(recent))
            if recent and dice.random() < 0.04:
                run = dice.choice(recent[-10:])
                calls.call("cancel", "POST", f"/api/v1/runs/{run}/cancel", run=run)
            time.sleep(dice.uniform(0, 2 / self.settings["per_second"]) * self.THREADS)

    def look(self, calls, run):
        calls.call(
            "get",
            "GET",
            f"/api/v1/runs/{run}",
            show=shown_run,
            run=run,
            goes_on=lambda: not self.stopping.is_set(),
        )


def submit(calls, body):
    return calls.call(
        "submit",
        "POST",
        "/api/v1/runs",
        body,
        key=body["idempotency_key"],
        namespace=body["namespace"],
        queue=body["queue"],
        type=body["type"],
    )


def shown_run(run):
    """What the checker reads of a run."""
    return {
        "state": run["state"],
        "epoch": run["epoch"],
        "token": (run.get("output") or {}).get("token"),
    }


class Probe:
    """Claims one run after the other at one server, to tell how soon that works again."""

    def __init__(self, settings, stopping):
        self.settings, self.stopping = settings, stopping

    def run(self):
        threads = []
        for server in self.settings["servers"]:
            settings = {**self.settings, "servers": [server]}
            threads.append(threading.Thread(target=self.watch, args=(settings, server[0])))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def watch(self, settings, server):
        calls = caller(settings, f"probe-{server}", timeout_s=1.0)

        def goes_on():
            return not self.stopping.is_set()

        while not self.stopping.is_set():
            body = {
                "namespace": settings["namespace"],
                "name": f"{settings['name']}-{server}",
                "queues": ["probe"],
                "types": ["probe"],
                "max_concurrent": 10,
                "instance": secrets.token_hex(8),
            }
            outcome, answer = calls.call(
                "register",
                "POST",
                "/api/v1/workers",
                body,
                namespace=settings["namespace"],
                goes_on=goes_on,
            )
            number = 0
            while outcome == OK and not self.stopping.is_set():
                number += 1
                outcome = self.claim(calls, settings, server, answer["worker_id"], number, goes_on)
                time.sleep(0.3)

    def claim(self, calls, settings, server, worker, number, goes_on):
        """A claim is the sign of life too."""
        outcome, answer = calls.call(
            "claim",
            "POST",
            f"/api/v1/workers/{worker}/claim",
            {"claim_no": number},
            show=shown_claim,
            goes_on=goes_on,
            worker=worker,
            namespace=settings["namespace"],
            queues=["probe"],
            types=["probe"],
            claim_no=number,
            probe=f"{settings['host']} {server}",
        )
        for run in answer.get("runs", []) if outcome == OK else []:
            token = secrets.token_hex(8)
            calls.call(
                "complete",
                "POST",
                f"/api/v1/runs/{run['run_id']}/complete",
                {"lease": run["lease"], "output": {"token": token}},
                run=run["run_id"],
                epoch=run["epoch"],
                worker=settings["name"],
                token=token,
                goes_on=goes_on,
            )
        return outcome


class Starter:
    """Starts workflows and sends signals to them: with the command line, as people do."""

    def __init__(self, settings, stopping):
        self.settings, self.stopping = settings, stopping

    def run(self):
        calls = caller(self.settings, "starts", lost=0.05, roams=0.3)
        number = 0
        while not self.stopping.is_set():
            number += 1
            signalled = calls.dice.random() < 0.4
            key = f"{self.settings['name']}-{secrets.token_hex(6)}"
            body = {
                "namespace": self.settings["namespace"],
                "idempotency_key": key,
                "queue": "bench",
                "type": "signalled" if signalled else "noop",
                "input": number,
                **PATIENT,
            }
            outcome, answer = calls.call(
                "start_workflow",
                "POST",
                "/api/v1/runs",
                body,
                key=key,
                input=number,
                namespace=body["namespace"],
                type=body["type"],
            )
            if outcome == OK and signalled:
                for payload in payloads(number):
                    send_signal(calls, self.settings["baton"], answer["id"], payload)
            time.sleep(calls.dice.uniform(0, 2 / self.settings["per_second"]))


def payloads(number):
    """What the signals of the workflow with this input bring, in their order."""
    return [2 * number, 2 * number + 1]


def send_signal(calls, baton, run, payload):
    """Repeats it until it is taken: with one idempotency key, it is one signal."""
    operation = calls.recorder.begin("signal", run=run, payload=payload)
    while True:
        server = calls.dice.choice(calls.servers)
        command = [
            baton,
            "workflow",
            "signal",
            run,
            "go",
            "--payload",
            str(payload),
            "--idempotency-key",
            f"{run}-{payload}",
        ]
        environment = {
            "BATON_URL": f"http://{server.address}:{server.port}",
            "BATON_API_KEY": calls.key,
        }
        calls.recorder.invoke(operation, server.name)
        try:
            done = subprocess.run(command, env=environment, timeout=4, capture_output=True)
            outcome, said = (OK if done.returncode == 0 else UNKNOWN), done.stderr.decode()
        except subprocess.TimeoutExpired:
            outcome, said = UNKNOWN, "timeout"
        calls.recorder.end(operation, outcome, {"said": said})
        if outcome == OK:
            return
        time.sleep(0.2)


KINDS = {"submitter": Submitter, "worker": Worker, "probe": Probe, "starter": Starter}


def end_with(failed):
    """A client that has lost a thread is no client: the driver hears of it."""
    traceback.print_exception(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(1)


def main():
    settings = json.loads(sys.argv[1])
    stopping = threading.Event()
    threading.excepthook = end_with
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    recorder_of(settings)
    KINDS[settings["kind"]](settings, stopping).run()


if __name__ == "__main__":
    main()
