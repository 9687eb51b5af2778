"""Judges workflows: every step recorded once, as one of its executions made it; every signal taken
once, in the order of sending; and a result that follows from them.

The functions are those of crates/cli/src/bench/scenario/workflow_kills/three_steps.rs.
"""

from collections import defaultdict

from .checker import Violation

STEPS = ["first", "second", "third"]
MASK = (1 << 64) - 1


def scramble(number):
    bits = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def read_effects(paths):
    """(run, step) to the tokens of its executions. A kill may have cut the last line short."""
    effects = defaultdict(set)
    for path in paths:
        with open(path) as file:
            for line in file:
                fields = line.split()
                if line.endswith("\n") and len(fields) == 3:
                    effects[fields[0], int(fields[1])].add(int(fields[2], 16))
    return effects


def check_workflow(run, kind, given, steps, output, signals, effects):
    """`steps` is what the server recorded, `signals` the payloads sent, in order."""
    recorded = [one for one in steps if one["kind"] == "step"]
    names = [one["name"] for one in recorded]
    if names != STEPS:
        yield Violation("steps", run, f"recorded are {names}")
        return
    value, token = given, 0
    for number, one in enumerate(recorded):
        made = one["output"]
        if one["state"] != "completed" or made["value"] != scramble(
            ((value ^ token) + number + 1) & MASK
        ):
            yield Violation("steps", run, f"{one['name']} does not follow from what came before")
        if made["token"] not in effects[run, number]:
            yield Violation("steps", run, f"no execution of {one['name']} made what is recorded")
        value, token = made["value"], made["token"]
    result = scramble(value ^ token)
    expected = {"result": result, "signals": signals} if kind == "signalled" else result
    if output != expected:
        yield Violation("steps", run, f"the result is {output}, not {expected}")
