"""First in, first out: judged in quiet times only, with what was submitted before the faults."""

import secrets

from .checker import Violation

RUNS = 8


class Order:
    """Submits runs to a queue of their own, one after the other, and later claims them so."""

    def __init__(self, administrator, namespace):
        self.administrator, self.namespace = administrator, namespace
        self.queue = f"order-{secrets.token_hex(4)}"
        self.submitted = []

    def submit(self):
        for number in range(RUNS):
            body = {
                "namespace": self.namespace,
                "queue": self.queue,
                "type": "order",
                "input": number,
                "idempotency_key": f"{self.queue}-{number}",
            }
            answer = self.administrator.ask("POST", "/api/v1/runs", body)
            if answer is not None:
                self.submitted.append(answer["id"])

    def judge(self):
        """Claims and completes all of them. Yields what came in the wrong order, or not at all."""
        ask = self.administrator.ask
        worker = ask(
            "POST",
            "/api/v1/workers",
            {
                "namespace": self.namespace,
                "queues": [self.queue],
                "types": ["order"],
                "max_concurrent": RUNS,
                "instance": secrets.token_hex(8),
            },
        )["worker_id"]
        claimed = []
        for number in range(1, len(self.submitted) + 1):
            answer = ask(
                "POST", f"/api/v1/workers/{worker}/claim", {"claim_no": number, "wait_ms": 5_000}
            )
            for run in answer["runs"] if answer else []:
                claimed.append(run["run_id"])
                ask("POST", f"/api/v1/runs/{run['run_id']}/complete", {"lease": run["lease"]})
        if claimed != self.submitted:
            yield Violation("order", self.queue, f"submitted {self.submitted}, claimed {claimed}")
