"""Judges a history: functions from what clients saw, and what is stored at the end, to violations.

Times are those of one clock for all clients. An operation took effect, if at all, between the
beginning of its first try and the end of its last one. So "A before B" is only said when A has
ended before B began, and repeating a call never counts as a new one.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from .history import OK, REFUSED

ENDED = {"completed", "failed", "cancelled"}
# Reports that end the lease under which they are sent.
LETS_GO = {"complete", "fail", "give_back"}
WRITES = LETS_GO | {"start"}
# Store and clients read the same machine's clock; this is for what lies between.
SLACK_S = 0.5
# A lease whose answer was lost may live this much longer than its time before it is called stuck.
UNDELIVERED_S = 2.0


@dataclass(frozen=True)
class Violation:
    kind: str
    run: str
    text: str


@dataclass
class Stored:
    """A run as it is when all is over. `state` is None when there is no such run."""

    state: str | None
    epoch: int = 0
    token: str | None = None
    worker: str | None = None
    reason: str | None = None


@dataclass
class Lease:
    """A lease in the store's own history; times are those of the clients' clock."""

    run: str
    epoch: int
    worker: str
    begun: float
    ended: float | None


@dataclass
class Evidence:
    operations: list
    stored: dict = field(default_factory=dict)
    leases: list = field(default_factory=list)
    lease_ttl_s: float = 15.0

    def of(self, *verbs):
        return [one for one in self.operations if one.verb in verbs]

    def by_run(self, *verbs):
        found = defaultdict(list)
        for one in self.of(*verbs):
            found[one.what["run"]].append(one)
        return found


@dataclass(frozen=True)
class Delivery:
    """A run in the answer to a claim."""

    claim: object
    run: str
    epoch: int
    lease: str
    type: str
    queue: str
    input: dict | None

    @property
    def worker(self):
        return self.claim.what["worker"]


def deliveries(evidence):
    found = defaultdict(list)
    for claim in evidence.of("claim"):
        if claim.is_ok:
            for run in claim.answer["runs"]:
                found[run["run"]].append(Delivery(claim, **run))
    return found


def check(evidence):
    """All violations, each rule by itself."""
    return [violation for rule in RULES for violation in rule(evidence)]


def acknowledged(evidence):
    """Every run that a submit was answered with, and one such submit."""
    return {
        one.answer["id"]: one
        for one in evidence.of("submit", "start_workflow")
        if one.is_ok and "id" in one.answer
    }


def acknowledged_submits_exist_and_end(evidence):
    for run, submit in acknowledged(evidence).items():
        stored = evidence.stored.get(run, Stored(None))
        if stored.state is None:
            yield Violation(
                "lost", run, f"{submit.name} was acknowledged, and there is no such run"
            )
        elif stored.state not in ENDED:
            yield Violation(
                "stuck", run, f"still {stored.state}, epoch {stored.epoch}, worker {stored.worker}"
            )


def a_key_is_one_run(evidence):
    keys, runs = defaultdict(set), defaultdict(set)
    for submit in evidence.of("submit", "start_workflow"):
        for one in submit.tries:
            if one.outcome == OK and "id" in one.answer:
                keys[submit.what["key"]].add(one.answer["id"])
                runs[one.answer["id"]].add(submit.what["key"])
    for key, found in keys.items():
        if len(found) > 1:
            yield Violation("key", min(found), f"the idempotency key {key} gave {len(found)} runs")
    for run, found in runs.items():
        if len(found) > 1:
            yield Violation("key", run, f"{len(found)} idempotency keys gave the same run")


def completed_at_most_once(evidence):
    for run, completes in evidence.by_run("complete").items():
        done = {one.what["token"] for one in completes if one.is_ok}
        if len(done) > 1:
            yield Violation("completed_twice", run, f"outputs {sorted(done)} were all acknowledged")
        stored = evidence.stored.get(run)
        if stored is None or stored.state is None:
            continue
        for token in done:
            if stored.state != "completed" or stored.token != token:
                yield Violation(
                    "output",
                    run,
                    f"{token} was acknowledged; stored is {stored.state} {stored.token}",
                )
        for one in completes:
            is_own = stored.state == "completed" and one.what["token"] == stored.token
            if is_own and one.outcome == REFUSED:
                yield Violation(
                    "refused_and_stored",
                    run,
                    f"{one.name} was refused ({one.answer.get('code')}), and its output is stored",
                )
        if stored.state == "completed" and not any(
            one.what["token"] == stored.token and one.may_be_done for one in completes
        ):
            yield Violation("output", run, f"nobody can have completed it with {stored.token}")


def ends_have_a_cause(evidence):
    """A run is cancelled only when somebody asked for it, and fails only when a worker said so."""
    causes = {"cancelled": evidence.by_run("cancel"), "failed": evidence.by_run("fail")}
    for run, stored in evidence.stored.items():
        if stored.state in causes and not any(one.may_be_done for one in causes[stored.state][run]):
            yield Violation(
                "no_cause", run, f"{stored.state} ({stored.reason}), and nobody asked for that"
            )
    for run, fails in causes["failed"].items():
        stored = evidence.stored.get(run)
        for one in fails:
            # A run that somebody wants cancelled ends so, and the worker is told.
            told = one.tries[-1].answer.get("state", "failed")
            if stored and one.is_ok and not one.what["retryable"] and stored.state != told:
                yield Violation(
                    "output", run, f"{one.name} was told {told}; stored is {stored.state}"
                )


def a_lease_is_unique(evidence):
    holders = {}
    for run, given in deliveries(evidence).items():
        epochs = {}
        for one in given:
            if epochs.setdefault(one.epoch, one.worker) != one.worker:
                yield Violation("two_holders", run, f"epoch {one.epoch} was given to two workers")
            if holders.setdefault(one.lease, (run, one.epoch)) != (run, one.epoch):
                yield Violation(
                    "lease_reused", run, f"a lease of epoch {one.epoch} was another's before"
                )


def old_leases_write_nothing(evidence):
    """After a newer lease was seen, or the run's end, no write with an older one is accepted."""
    newer = defaultdict(list)
    for run, given in deliveries(evidence).items():
        newer[run] += [(one.claim.ended, one.epoch, "was claimed") for one in given]
    for write in evidence.of(*WRITES):
        if write.is_ok:
            newer[write.what["run"]].append(
                (write.ended, write.what["epoch"], f"had its {write.verb}")
            )
    accepted = [
        (one.begun, one.what["run"], one.what["epoch"], one.verb)
        for one in evidence.of(*WRITES)
        if one.is_ok
    ]
    for beat in evidence.of("heartbeat"):
        if beat.is_ok:
            lost = set(beat.answer["lost"])
            accepted += [
                (beat.begun, run, epoch, "heartbeat")
                for run, epoch in beat.what["leases"]
                if run not in lost
            ]
    for begun, run, epoch, verb in accepted:
        for ended, later, how in newer[run]:
            if later > epoch and ended < begun:
                yield Violation(
                    "fence",
                    run,
                    f"{verb} with epoch {epoch} was accepted after epoch {later} {how}",
                )
                break


def nothing_is_claimed_after_its_end(evidence):
    given = deliveries(evidence)
    for run, completes in evidence.by_run("complete").items():
        ended = min((one.ended for one in completes if one.is_ok), default=None)
        for one in given[run] if ended is not None else []:
            if one.claim.begun > ended:
                yield Violation(
                    "claimed_after_end",
                    run,
                    f"epoch {one.epoch} was handed out after it was completed",
                )


def living_workers_keep_their_runs(evidence):
    """Nobody gets a run while a sign of life of its holder, which was acknowledged, is younger
    than a lease lives; unless the holder let go of it. A claim is half a sign: it renews only what
    has less than half of its time left."""
    alive, lets_go = defaultdict(list), defaultdict(list)
    given = deliveries(evidence)
    worker_of = {(run, one.epoch): one.worker for run, several in given.items() for one in several}
    for run, several in given.items():
        for one in several:
            alive[run, one.epoch].append(one.claim.tries[-1].invoked - evidence.lease_ttl_s / 2)
    for beat in evidence.of("heartbeat"):
        if beat.is_ok:
            lost = set(beat.answer["lost"])
            for run, epoch in beat.what["leases"]:
                if run not in lost:
                    alive[run, epoch].append(beat.begun)
    for write in evidence.of(*LETS_GO):
        lets_go[write.what["run"], write.what["epoch"]].append(write.begun)
    # A worker that tells all it holds, without this one, lets go of it.
    telling = defaultdict(list)
    for beat in evidence.of("heartbeat"):
        if beat.what["all"]:
            telling[beat.what["worker"]].append(
                (beat.begun, {tuple(one) for one in beat.what["leases"]})
            )
    for run, several in given.items():
        for taken in several:
            holder = (run, taken.epoch - 1)
            sign = max(
                (begun for begun in alive[holder] if begun < taken.claim.ended), default=None
            )
            if sign is None or taken.claim.ended > sign + evidence.lease_ttl_s - SLACK_S:
                continue
            let_go = any(begun < taken.claim.ended for begun in lets_go[holder]) or any(
                begun < taken.claim.ended and holder not in told
                for begun, told in telling[worker_of.get(holder)]
            )
            if not let_go:
                left = sign + evidence.lease_ttl_s - taken.claim.ended
                yield Violation(
                    "taken_from_the_living",
                    run,
                    f"epoch {taken.epoch} was handed out when the one before had {left:.2f} s left",
                )


def workers_get_what_they_asked_for(evidence):
    submits = acknowledged(evidence)
    for run, several in deliveries(evidence).items():
        for one in several:
            asked = one.claim.what
            if one.type not in asked["types"]:
                yield Violation("type", run, f"a worker of {asked['types']} got {one.type}")
            if one.queue not in asked["queues"]:
                yield Violation(
                    "queue", run, f"a claim on {asked['queues']} got a run of {one.queue}"
                )
            namespaces = {(one.input or {}).get("namespace")}
            if run in submits:
                namespaces.add(submits[run].what["namespace"])
                namespaces |= {None} if one.input is None else set()
                if submits[run].what["type"] != one.type:
                    yield Violation(
                        "type",
                        run,
                        f"submitted as {submits[run].what['type']}, handed out as {one.type}",
                    )
            if namespaces != {asked["namespace"]}:
                yield Violation(
                    "namespace", run, f"a worker of {asked['namespace']} got a run of {namespaces}"
                )


def ends_are_final(evidence):
    """A state that a client has seen ended, or was told of, is what everybody sees from then on. An
    acknowledged run is there, and its epoch never goes back."""
    ends, starts = defaultdict(list), {}
    gets = evidence.by_run("get")
    for run, several in gets.items():
        ends[run] += [
            (one.ended, (one.answer["state"], one.answer["token"]))
            for one in several
            if one.is_ok and one.answer["state"] in ENDED
        ]
    for run, completes in evidence.by_run("complete").items():
        ends[run] += [
            (one.ended, ("completed", one.what["token"])) for one in completes if one.is_ok
        ]
    for submit in evidence.of("submit", "start_workflow"):
        if submit.is_ok and "id" in submit.answer:
            run = submit.answer["id"]
            starts[run] = min(starts.get(run, submit.ended), submit.ended)
    for run, several in gets.items():
        for one in several:
            if (
                one.outcome == REFUSED
                and one.tries[-1].http == 404
                and one.begun > starts.get(run, one.begun)
            ):
                yield Violation(
                    "lost", run, f"{one.name} did not find it after it was acknowledged"
                )
            if not one.is_ok:
                continue
            seen = (one.answer["state"], one.answer["token"])
            if any(when < one.begun and end != seen for when, end in ends[run]):
                yield Violation(
                    "end_changed", run, f"{one.name} saw {seen} after another end was seen"
                )
            if any(
                other.is_ok
                and other.ended < one.begun
                and other.answer["epoch"] > one.answer["epoch"]
                for other in several
            ):
                yield Violation(
                    "epoch_went_back", run, f"{one.name} saw epoch {one.answer['epoch']}"
                )
    for run, several in ends.items():
        stored = evidence.stored.get(run)
        for _, end in several if stored else []:
            if end != (stored.state, stored.token):
                yield Violation(
                    "end_changed", run, f"seen {end}, stored {(stored.state, stored.token)}"
                )
                break


def undelivered(evidence):
    """Leases that their worker never heard of, and how long each stood after a claim of that
    worker was answered without it."""
    given = deliveries(evidence)
    heard = {(run, one.epoch) for run, several in given.items() for one in several}
    last_sign, claims = {}, defaultdict(list)
    for one in evidence.of("heartbeat", "claim"):
        if one.is_ok:
            worker = one.what["worker"]
            last_sign[worker] = max(last_sign.get(worker, 0), one.ended)
            if one.verb == "claim":
                claims[worker].append(one.tries[-1])
    for lease in evidence.leases:
        if (lease.run, lease.epoch) not in heard and lease.worker in last_sign:
            until = min(last_sign[lease.worker], lease.ended or last_sign[lease.worker])
            later = [one.ended for one in claims[lease.worker] if one.invoked > lease.begun]
            yield lease, until - min(later, default=until)


def lost_answers_come_again(evidence):
    """A worker that lives, and claims, hears of what it was given."""
    claims = defaultdict(list)
    for one in evidence.of("claim"):
        claims[one.what["worker"]].append(one)
    for lease, stood_s in undelivered(evidence):
        if stood_s > evidence.lease_ttl_s + UNDELIVERED_S:
            asked = [one for one in claims[lease.worker] if one.begun < lease.begun + 0.01]
            last = asked[-1] if asked else None
            how = last and f"claim_no {last.what['claim_no']}: " + ", ".join(
                f"{one.server} {one.outcome} {one.invoked - lease.begun:+.2f} s"
                for one in last.tries
            )
            yield Violation(
                "undelivered",
                lease.run,
                f"epoch {lease.epoch} was given to {lease.worker}, which lived and claimed for "
                f"{stood_s:.1f} s and was never told ({how})",
            )


def nothing_is_a_bug(evidence):
    """500 is a bug by definition (docs/errors.md)."""
    for one in evidence.operations:
        for attempt in one.tries:
            if attempt.http == 500:
                yield Violation(
                    "internal",
                    one.what.get("run", "-"),
                    f"{one.name} {one.verb}: 500 {attempt.answer.get('code')}",
                )


RULES = [
    acknowledged_submits_exist_and_end,
    a_key_is_one_run,
    completed_at_most_once,
    ends_have_a_cause,
    a_lease_is_unique,
    old_leases_write_nothing,
    nothing_is_claimed_after_its_end,
    living_workers_keep_their_runs,
    workers_get_what_they_asked_for,
    ends_are_final,
    lost_answers_come_again,
    nothing_is_a_bug,
]
