"""Histories with known violations are found, and histories without are let pass:
python3 -m unittest discover -s bench -t bench"""

import os
import tempfile
import unittest

from . import history, workflows
from .checker import Evidence, Lease, Stored, check
from .history import OK, REFUSED, UNKNOWN, Operation, Recorder, Try


class Story:
    """A history that is told in order: one call after the other, each lasts a second."""

    def __init__(self):
        self.operations, self.stored, self.leases, self.now = [], {}, [], 0.0

    def call(self, verb, what, outcome=OK, answer=None, lasts=1.0, tries=(), http=0):
        """`tries` are outcomes of tries before the last one."""
        made = []
        for result in [*tries, outcome]:
            made.append(Try(self.now, "a", self.now + lasts, result))
            # A moment between them, so that one is before the other.
            self.now += lasts + 0.01
        made[-1].answer, made[-1].http = answer or {}, http
        self.operations.append(Operation(f"op-{len(self.operations)}", verb, what, made))
        return self

    def submit(self, run="r", key="k", namespace="red", kind="alpha", **more):
        what = {"key": key, "namespace": namespace, "queue": "q", "type": kind}
        self.stored.setdefault(run, Stored("completed", 1, None))
        return self.call("submit", what, answer={"id": run}, **more)

    def claim(
        self,
        worker,
        run="r",
        epoch=1,
        lease=None,
        kind="alpha",
        namespace="red",
        types=("alpha",),
        got_nothing=False,
        **more,
    ):
        given = {
            "run": run,
            "epoch": epoch,
            "lease": lease or f"{run}/{epoch}",
            "type": kind,
            "queue": "q",
            "input": {"namespace": namespace},
        }
        what = {
            "worker": worker,
            "namespace": "red",
            "queues": ["q"],
            "types": list(types),
            "claim_no": 1,
        }
        return self.call("claim", what, answer={"runs": [] if got_nothing else [given]}, **more)

    def beat(self, worker, leases, lost=(), everything=False, **more):
        what = {"worker": worker, "leases": [list(one) for one in leases], "all": everything}
        return self.call("heartbeat", what, answer={"lost": list(lost)}, **more)

    def write(
        self,
        verb,
        epoch=1,
        token=None,
        run="r",
        outcome=OK,
        code=None,
        retryable=True,
        state=None,
        **more,
    ):
        what = {"run": run, "epoch": epoch, "worker": "w", "token": token, "retryable": retryable}
        state = state or ("failed" if verb == "fail" else "completed")
        answer = {"code": code} if outcome == REFUSED else {"state": state}
        return self.call(verb, what, outcome, answer, **more)

    def get(self, state, token=None, epoch=1, run="r", outcome=OK, **more):
        answer = {"state": state, "token": token, "epoch": epoch}
        return self.call("get", {"run": run}, outcome, answer, **more)

    def ends(self, state, token=None, epoch=1, run="r"):
        self.stored[run] = Stored(state, epoch, token)
        return self

    def passes(self, seconds):
        self.now += seconds
        return self

    def kinds(self):
        evidence = Evidence(self.operations, self.stored, self.leases, lease_ttl_s=4.0)
        return sorted({violation.kind for violation in check(evidence)})


def done(worker="w1"):
    """A run that is submitted, claimed and completed."""
    return Story().submit().claim(worker).write("complete", token="t").ends("completed", "t")


class Judging(unittest.TestCase):
    def finds(self, story, *kinds):
        self.assertEqual(story.kinds(), sorted(kinds))

    def test_a_plain_history_is_fine(self):
        self.finds(done().get("completed", "t").beat("w1", [("r", 1)], lost=["r"]))

    def test_a_lost_answer_that_was_repeated_is_fine(self):
        story = Story().submit(tries=[UNKNOWN]).claim("w1", tries=[UNKNOWN, UNKNOWN])
        self.finds(story.write("complete", token="t", tries=[UNKNOWN]).ends("completed", "t"))

    def test_an_acknowledged_run_that_is_gone_is_lost(self):
        self.finds(Story().submit().ends(None), "lost")

    def test_a_run_that_is_not_found_after_its_submit_is_lost(self):
        self.finds(done().get("", outcome=REFUSED, http=404), "lost")

    def test_a_run_that_never_ends_is_stuck(self):
        self.finds(Story().submit().claim("w1").ends("assigned"), "stuck")

    def test_one_key_with_two_runs(self):
        story = done().submit(run="r2", key="k").ends("cancelled", run="r2")
        self.finds(story.call("cancel", {"run": "r2"}), "key")

    def test_two_keys_with_one_run(self):
        self.finds(done().submit(run="r", key="other"), "key")

    def test_two_acknowledged_outputs(self):
        story = done().write("complete", token="u")
        self.finds(story, "completed_twice", "output", "end_changed")

    def test_a_stored_output_that_nobody_sent(self):
        self.finds(
            Story()
            .submit()
            .claim("w1")
            .ends("completed", "x")
            .write("complete", token="t", outcome=UNKNOWN),
            "output",
        )

    def test_a_refused_output_that_is_stored(self):
        story = Story().submit().claim("w1").ends("completed", "t")
        self.finds(
            story.write("complete", token="t", outcome=REFUSED, code="lease_lost", tries=[UNKNOWN]),
            "refused_and_stored",
        )

    def test_an_output_whose_answer_was_lost_may_be_stored(self):
        self.finds(
            Story()
            .submit()
            .claim("w1")
            .write("complete", token="t", outcome=UNKNOWN)
            .ends("completed", "t")
        )

    def test_a_cancelled_run_that_nobody_cancelled(self):
        self.finds(Story().submit().ends("cancelled"), "no_cause")

    def test_a_failed_run_that_no_worker_failed(self):
        self.finds(Story().submit().claim("w1").ends("failed"), "no_cause")

    def test_a_run_that_failed_for_good_and_was_completed(self):
        story = Story().submit().claim("w1").write("fail", retryable=False).claim("w2", epoch=2)
        self.finds(story.write("complete", epoch=2, token="t").ends("completed", "t", 2), "output")

    def test_a_run_that_failed_for_good_while_it_was_being_cancelled(self):
        story = Story().submit().claim("w1").call("cancel", {"run": "r"}, OK, {})
        story.write("fail", retryable=False, state="cancelled")
        self.finds(story.ends("cancelled"))

    def test_one_epoch_with_two_holders(self):
        self.finds(
            Story()
            .submit()
            .claim("w1")
            .claim("w2")
            .write("complete", token="t")
            .ends("completed", "t"),
            "two_holders",
        )

    def test_one_lease_for_two_epochs(self):
        story = (
            Story()
            .submit()
            .claim("w1", lease="l")
            .write("give_back")
            .claim("w2", epoch=2, lease="l")
        )
        self.finds(
            story.write("complete", epoch=2, token="t").ends("completed", "t", 2), "lease_reused"
        )

    def test_a_zombie_whose_write_is_accepted(self):
        story = Story().submit().claim("w1").passes(9).claim("w2", epoch=2)
        self.finds(
            story.write("start", epoch=1)
            .write("complete", epoch=2, token="t")
            .ends("completed", "t", 2),
            "fence",
        )

    def test_a_zombie_whose_heartbeat_is_told_nothing(self):
        story = Story().submit().claim("w1").passes(9).claim("w2", epoch=2).beat("w1", [("r", 1)])
        self.finds(story.write("complete", epoch=2, token="t").ends("completed", "t", 2), "fence")

    def test_a_repeated_report_is_no_zombie(self):
        story = Story().submit().claim("w1")
        begun = story.now
        story.claim("w2", epoch=2).now = begun
        story.write("give_back", epoch=1, tries=[UNKNOWN, UNKNOWN])
        self.finds(story.write("complete", epoch=2, token="t").ends("completed", "t", 2))

    def test_a_run_that_is_handed_out_after_its_end(self):
        self.finds(done().passes(9).claim("w2", epoch=2), "claimed_after_end")

    def test_a_run_that_is_taken_from_a_living_worker(self):
        story = Story().submit().claim("w1").passes(3).beat("w1", [("r", 1)]).claim("w2", epoch=2)
        self.finds(
            story.write("complete", epoch=2, token="t").ends("completed", "t", 2),
            "taken_from_the_living",
        )

    def test_a_run_that_is_taken_from_a_worker_that_has_just_got_it(self):
        """The poll that was given up gives back what the repeated claim has delivered."""
        story = (
            Story()
            .submit()
            .claim("w1", tries=[UNKNOWN, UNKNOWN], lasts=0.5)
            .claim("w1", epoch=2, lasts=0.1)
        )
        self.finds(
            story.write("complete", epoch=2, token="t").ends("completed", "t", 2),
            "taken_from_the_living",
        )

    def test_a_silent_worker_loses_its_runs(self):
        story = Story().submit().claim("w1").passes(5).claim("w2", epoch=2)
        self.finds(story.write("complete", epoch=2, token="t").ends("completed", "t", 2))

    def test_a_worker_that_does_not_name_a_run_lets_go_of_it(self):
        story = Story().submit().claim("w1").beat("w1", [], everything=True).claim("w2", epoch=2)
        self.finds(story.write("complete", epoch=2, token="t").ends("completed", "t", 2))

    def test_a_run_of_another_tenant(self):
        story = Story().submit(namespace="blue").claim("w1", namespace="blue")
        self.finds(story.write("complete", token="t").ends("completed", "t"), "namespace")

    def test_a_run_of_another_type(self):
        story = Story().submit(kind="beta").claim("w1", kind="beta").write("complete", token="t")
        self.finds(story.ends("completed", "t"), "type")

    def test_an_end_that_changes(self):
        self.finds(done().get("completed", "t").get("failed"), "end_changed")

    def test_an_end_that_is_forgotten(self):
        self.finds(done().get("running"), "end_changed")

    def test_an_epoch_that_goes_back(self):
        story = (
            Story().submit().get("running", epoch=2).get("pending", epoch=1).claim("w1", epoch=3)
        )
        self.finds(
            story.write("complete", epoch=3, token="t").ends("completed", "t", 3), "epoch_went_back"
        )

    def test_an_answer_that_never_comes_again(self):
        """claim_no 3 at one server, its answer lost; 3 at the other one: nothing."""
        story = Story().submit().claim("w1", got_nothing=True, tries=[UNKNOWN])
        story.leases.append(Lease("r", 1, "w1", story.now - 1.5, None))
        for _ in range(9):
            story.beat("w1", []).claim("w1", got_nothing=True)
        self.finds(story.ends("assigned"), "stuck", "undelivered")

    def test_a_lost_answer_that_is_put_back_soon_is_fine(self):
        story = Story().submit().claim("w1", got_nothing=True, tries=[UNKNOWN])
        story.leases.append(Lease("r", 1, "w1", story.now - 1.5, story.now + 4))
        story.beat("w1", [], everything=True).passes(5).claim("w2", epoch=2)
        story.beat("w1", []).write("complete", epoch=2, token="t")
        self.finds(story.ends("completed", "t", 2))

    def test_a_lost_answer_whose_worker_was_killed_is_fine(self):
        story = Story().submit().claim("w1", outcome=UNKNOWN)
        story.leases.append(Lease("r", 1, "w1", story.now - 0.5, story.now + 5))
        story.passes(9).claim("w2", epoch=2).write("complete", epoch=2, token="t")
        self.finds(story.ends("completed", "t", 2))

    def test_an_internal_error(self):
        self.finds(done().call("get", {"run": "r"}, UNKNOWN, http=500), "internal")


class JudgingWorkflows(unittest.TestCase):
    def setUp(self):
        self.steps, self.effects, value, token = [], {}, 7, 0
        for number, name in enumerate(workflows.STEPS):
            value = workflows.scramble((value ^ token) + number + 1 & workflows.MASK)
            token = 1000 + number
            self.steps.append(
                {
                    "kind": "step",
                    "name": name,
                    "state": "completed",
                    "output": {"value": value, "token": token},
                }
            )
            self.effects["r", number] = {token}
        self.output = workflows.scramble(value ^ token)

    def judge(self, kind="noop", output=None, signals=()):
        return list(
            workflows.check_workflow(
                "r", kind, 7, self.steps, output or self.output, list(signals), self.effects
            )
        )

    def test_a_plain_workflow_is_fine(self):
        self.assertEqual(self.judge(), [])
        output = {"result": self.output, "signals": [1, 2]}
        self.assertEqual(self.judge("signalled", output, [1, 2]), [])

    def test_a_step_that_is_recorded_twice(self):
        self.steps.insert(1, self.steps[0])
        self.assertTrue(self.judge())

    def test_a_record_that_no_execution_made(self):
        self.effects["r", 1] = {5}
        self.assertTrue(self.judge())

    def test_a_step_that_does_not_follow(self):
        self.steps[2]["output"]["value"] ^= 1
        self.assertTrue(self.judge())

    def test_a_signal_that_is_taken_twice(self):
        output = {"result": self.output, "signals": [1, 1]}
        self.assertTrue(self.judge("signalled", output, [1, 2]))


class Recording(unittest.TestCase):
    def test_a_killed_client_leaves_a_try_without_an_answer(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "history")
            recorder = Recorder(path, "w")
            one, other = recorder.begin("submit", key="k"), recorder.begin("get", run="r")
            recorder.invoke(one, "a")
            recorder.end(one, UNKNOWN, {"lost": "TimeoutError"})
            recorder.invoke(one, "b")
            recorder.end(one, OK, {"id": "r"}, 201)
            recorder.invoke(other, "a")
            read = history.read([path])
        self.assertEqual([operation.outcome for operation in read], [OK, UNKNOWN])
        self.assertEqual([attempt.server for attempt in read[0].tries], ["a", "b"])
        self.assertTrue(read[0].may_be_done and read[1].may_be_done)


if __name__ == "__main__":
    unittest.main()
