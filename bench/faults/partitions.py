"""The long run: rounds of faults with quiet times between them, then everything is judged."""

import json
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from . import checker, history, workflows
from .administrator import READERS, Administrator
from .checker import ENDED, Evidence, Violation
from .clients import payloads, send_signal
from .faults import ON_ANY_STORE, ON_POSTGRES, next_round
from .order import Order
from .world import LEASE_TTL_MS, TENANTS

QUIET_S = (1.0, 3.0)
HEAL_S_MAX = 3.0
# How long the driver waits for the probes after a round before it goes on.
HEAL_PATIENCE_S = 30.0
# When nothing has ended for so long after the last fault, nothing will.
STUCK_S = 25.0
# How often the driver looks for processes that have ended by themselves.
LOOK_S = 0.2
# More than the probes claim in a round.
PROBES_WAITING = 500
SHOWN = 25


class Partitions:
    def __init__(self, world, dice, kinds):
        self.world, self.dice, self.kinds = world, dice, kinds
        self.faults, self.heals, self.violations = Counter(), [], []
        self.begun = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self.begun:7.1f} s  {text}", flush=True)

    def play(self, seconds):
        self.administrator = Administrator(self.world, self.world.start_servers())
        keys = {tenant: self.administrator.make_key(tenant) for tenant in TENANTS}
        self.administrator.fill(TENANTS[0], "probe", PROBES_WAITING)
        self.world.start_clients(keys)
        self.say(
            f"seed {self.world.seed}: {', '.join(self.world.servers)} and "
            f"{len(self.world.victims)} clients are up"
        )
        self.wait_for_probes(time.monotonic())
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.play_round()
        self.end_all()
        return self.judge()

    def play_round(self):
        self.sleep_until(time.monotonic() + self.dice.uniform(*QUIET_S))
        self.administrator.fill(TENANTS[0], "probe", PROBES_WAITING)
        order = Order(self.administrator, self.dice.choice(TENANTS))
        order.submit()
        planned = next_round(self.world, self.dice, self.kinds)
        begun = time.monotonic()
        moments = [(begin, fault, fault.begin) for begin, _, fault in planned]
        moments += [(end, fault, fault.end) for _, end, fault in planned]
        for moment, _, act in sorted(moments, key=lambda entry: entry[0]):
            self.sleep_until(begun + moment)
            act()
        healed = time.monotonic()
        texts = [
            f"{fault.kind} ({fault.text}) {end - begin:.1f} s" for begin, end, fault in planned
        ]
        self.faults.update(fault.kind for _, _, fault in planned)
        slowest = self.wait_for_probes(healed)
        self.heals.append((healed, "; ".join(texts)))
        self.say(f"{'; '.join(texts)}: claims again after {slowest:.2f} s")
        self.violations += order.judge()

    def sleep_until(self, moment):
        """Meanwhile it does what a service manager does."""
        while True:
            for process in self.world.restart_ended():
                self.violations.append(
                    Violation("died", process.name, f"ended by itself; see {process.log}")
                )
            left = moment - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, LOOK_S))

    def wait_for_probes(self, healed):
        """Until each probe has claimed something at each server. Returns how long that took."""
        waiting = {
            f"{host} {server}" for host in ("work-1", "work-2") for server in self.world.servers
        }
        tails = [
            Tail(f"{self.world.directory}/probe-{host}.history") for host in ("work-1", "work-2")
        ]
        while waiting and time.monotonic() < healed + HEAL_PATIENCE_S:
            self.sleep_until(time.monotonic() + 0.02)
            for tail in tails:
                waiting -= tail.claimed_since(healed)
        return time.monotonic() - healed

    def end_all(self):
        """No more faults and no more submits; the workers go on until everything has ended."""
        self.say("no more faults; what was acknowledged has to end")
        for process in self.world.named("submitter") + self.world.named("starter"):
            process.terminate(patience_s=60)
        operations = history.read(self.world.histories)
        self.acknowledged = checker.acknowledged(Evidence(operations))
        self.send_missing_signals(operations)
        claimed = checker.deliveries(Evidence(operations)).keys()
        self.stored, open_runs = {}, sorted(self.acknowledged.keys() | claimed)
        probes = claimed - self.acknowledged.keys()
        last_end = time.monotonic()
        while open_runs and time.monotonic() < last_end + STUCK_S:
            self.stored |= self.administrator.read_all(open_runs)
            still = [
                run
                for run in open_runs
                if self.stored[run].state not in ENDED and self.stored[run].state is not None
            ]
            if len(still) < len(open_runs):
                last_end = time.monotonic()
            open_runs = still
            # What a probe holds, it completes; nobody waits for it.
            if all(run in probes for run in open_runs):
                break
            time.sleep(0.5)
        for process in self.world.named("worker") + self.world.named("probe"):
            process.terminate()
        # Of the others, what was seen while their workers lived is what counts.
        self.stored |= self.administrator.read_all([run for run in open_runs if run in probes])

    def send_missing_signals(self, operations):
        """Those that a starter had not sent when it was killed."""
        sent = {
            (one.what["run"], one.what["payload"])
            for one in operations
            if one.verb == "signal" and one.is_ok
        }
        for run, start in self.acknowledged.items():
            if start.what["type"] == "signalled":
                for payload in payloads(start.what["input"]):
                    if (run, payload) not in sent:
                        send_signal(self.administrator.calls, self.world.baton, run, payload)

    def judge(self):
        operations = history.read(self.world.histories)
        evidence = Evidence(operations, self.stored, self.unheard(operations), LEASE_TTL_MS / 1000)
        self.violations += checker.check(evidence)
        self.violations += self.judge_workflows()
        never_heard = list(checker.undelivered(evidence))
        slow = self.report(operations, never_heard)
        return not self.violations and not slow

    def unheard(self, operations):
        """The leases of runs that were claimed more often than any client was told."""
        offset = time.time() - time.monotonic()
        heard = {
            run: {one.epoch for one in given}
            for run, given in checker.deliveries(Evidence(operations)).items()
        }
        leases = []
        for run, stored in self.stored.items():
            kind = self.acknowledged.get(run)
            if (
                kind is not None
                and kind.verb == "submit"
                and len(heard.get(run, ())) < stored.epoch
            ):
                leases += self.administrator.leases(run, offset)
        return leases

    def judge_workflows(self):
        effects = workflows.read_effects(self.world.effects)
        completed = {
            run: start.what
            for run, start in self.acknowledged.items()
            if start.verb == "start_workflow" and self.stored[run].state == "completed"
        }
        with ThreadPoolExecutor(READERS) as readers:
            for run, (steps, output) in zip(
                completed, readers.map(self.steps, completed), strict=True
            ):
                started = completed[run]
                yield from workflows.check_workflow(
                    run,
                    started["type"],
                    started["input"],
                    steps,
                    output,
                    payloads(started["input"]),
                    effects,
                )

    def steps(self, run):
        server = self.administrator.servers[0]
        environment = {
            "BATON_URL": f"http://{server.address}:{server.port}",
            "BATON_API_KEY": self.administrator.key,
        }
        listed = subprocess.run(
            [self.world.baton, "workflow", "steps", run, "--json"],
            env=environment,
            capture_output=True,
            check=True,
        )
        view = self.administrator.ask(
            "GET", f"/api/v1/runs/{run}", calls=self.administrator.caller()
        )
        return json.loads(listed.stdout)["steps"], view["output"]

    def report(self, operations, never_heard):
        tries = Counter(one.outcome for operation in operations for one in operation.tries)
        states = Counter(stored.state for stored in self.stored.values())
        probes = [one for one in operations if "probe" in one.what]
        lasting = [
            (first_claim(probes, healed, HEAL_PATIENCE_S), text) for healed, text in self.heals
        ]
        times = sorted(time_s for found, _ in lasting for time_s in found.values())
        slow = sum(time_s > HEAL_S_MAX for time_s in times)
        kinds = Counter(one.kind for one in self.violations)
        stuck = kinds.pop("stuck", 0)
        print(f"\nseed                   {self.world.seed}")
        print(
            f"faults                 {sum(self.faults.values())} in {len(self.heals)} rounds: "
            + ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        )
        print(
            f"requests               {sum(tries.values())}: {tries['ok']} ok, "
            f"{tries['refused']} refused, {tries['unknown']} without an answer"
        )
        print(
            f"submits acknowledged   {len(self.acknowledged)}; "
            + ", ".join(f"{count} {state}" for state, count in sorted(states.items(), key=str))
        )
        print(f"leases never heard of  {len(never_heard)}: their worker got no answer")
        if times:
            print(
                f"heal to first claim    p50 {times[len(times) // 2]:.2f} s, "
                f"max {times[-1]:.2f} s, {slow} of {len(times)} over {HEAL_S_MAX:.0f} s (0 allowed)"
            )
        print(f"stuck runs             {stuck} (0 allowed)")
        print(
            f"violations             {sum(kinds.values())} (0 allowed)"
            + "".join(f", {kind} {count}" for kind, count in sorted(kinds.items()))
        )
        for found, text in lasting:
            late = [
                f"{probe} {time_s:.1f} s" for probe, time_s in found.items() if time_s > HEAL_S_MAX
            ]
            if late:
                print(f"  slow after {text}: {', '.join(late)}")
        for one in self.violations[:SHOWN]:
            print(f"  {one.kind}: {one.run}: {one.text}")
        return slow


def first_claim(probes, healed, patience_s):
    """The time from the heal to the first claim of each probe that brought a run."""
    found = {}
    for one in probes:
        probe = one.what["probe"]
        found.setdefault(probe, patience_s)
        if one.is_ok and one.answer["runs"] and one.ended >= healed:
            found[probe] = min(found[probe], one.ended - healed)
    return found


class Tail:
    """The end of a probe's history, while it is written."""

    def __init__(self, path):
        self.path, self.claims = path, {}
        try:
            self.position = max(0, _size(path) - 200_000)
        except OSError:
            self.position = 0

    def claimed_since(self, moment):
        """The probes that have got a run since."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.position)
                lines = file.read().split(b"\n")
        except OSError:
            return set()
        self.position += sum(len(line) + 1 for line in lines[:-1])
        found = set()
        for line in lines[:-1]:
            try:
                entry = json.loads(line)
            except ValueError:
                # The first one may be cut in two.
                continue
            if entry.get("verb") == "claim":
                self.claims[entry["op"]] = entry["what"]["probe"]
            elif (
                entry.get("end", 0) >= moment
                and entry["answer"].get("runs")
                and entry["op"] in self.claims
            ):
                found.add(self.claims[entry["op"]])
        return found


def _size(path):
    with open(path, "rb") as file:
        return file.seek(0, 2)


def play(world, dice, seconds, only):
    kinds = dict(ON_POSTGRES if world.postgres else ON_ANY_STORE)
    if only:
        unknown = set(only) - set(kinds)
        if unknown:
            raise SystemExit(
                f"no such faults here: {', '.join(sorted(unknown))}; there are {', '.join(kinds)}"
            )
        kinds = {kind: kinds[kind] for kind in only}
    return Partitions(world, dice, kinds).play(seconds)
