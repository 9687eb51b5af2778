"""What clients did and saw: a line before each try of a call, and one after it.

A client that is killed leaves a try without an end. It counts as unknown, as a lost answer does.
"""

import json
import os
import time
from dataclasses import dataclass, field

OK = "ok"  # carried out
REFUSED = "refused"  # not carried out, and never will be
UNKNOWN = "unknown"  # no answer, or one that does not say


class Recorder:
    """Writes the history of one process. Safe to use from several threads."""

    def __init__(self, path, process):
        self.process = process
        # One write for each line, so that a kill leaves all of it or nothing.
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.numbers = iter(range(1 << 62))

    def begin(self, verb, **what):
        """A new operation; `what` is what the checker is to know of it."""
        operation = f"{self.process}:{os.getpid()}:{next(self.numbers)}"
        self._write(op=operation, verb=verb, what=what)
        return operation

    def invoke(self, operation, server):
        self._write(op=operation, invoke=time.monotonic(), at=server)

    def end(self, operation, outcome, answer, http=0):
        """`http` is the status of the answer; 0 without one."""
        end = time.monotonic()
        self._write(op=operation, end=end, outcome=outcome, answer=answer, http=http)

    def _write(self, **line):
        os.write(self.file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


@dataclass
class Try:
    """One request of an operation. `ended` is None when its process was killed meanwhile."""

    invoked: float
    server: str = ""
    ended: float | None = None
    outcome: str = UNKNOWN
    answer: dict = field(default_factory=dict)
    http: int = 0


@dataclass
class Operation:
    """A call, repeated until it was answered."""

    name: str
    verb: str
    what: dict
    tries: list = field(default_factory=list)

    @property
    def begun(self):
        return self.tries[0].invoked

    @property
    def ended(self):
        """When the last answer came; None without one."""
        return self.tries[-1].ended

    @property
    def outcome(self):
        return self.tries[-1].outcome

    @property
    def answer(self):
        return self.tries[-1].answer

    @property
    def is_ok(self):
        return self.outcome == OK

    @property
    def may_be_done(self):
        """True unless every try was refused or never began."""
        return any(one.outcome != REFUSED for one in self.tries)


def read(paths):
    """All operations of these histories that got as far as a try, by the time they began."""
    operations = {}
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                entry = json.loads(line)
                name = entry["op"]
                if "verb" in entry:
                    operations[name] = Operation(name, entry["verb"], entry["what"])
                elif "invoke" in entry:
                    operations[name].tries.append(Try(entry["invoke"], entry["at"]))
                else:
                    last = operations[name].tries[-1]
                    last.ended, last.outcome = entry["end"], entry["outcome"]
                    last.answer, last.http = entry["answer"], entry["http"]
    return sorted((one for one in operations.values() if one.tries), key=lambda one: one.begun)
