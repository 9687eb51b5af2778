"""Does what a submitter and a worker do, through a client that was generated from /openapi.json: URL and API key are given."""

import json
import sys

from baton_client import AuthenticatedClient
from baton_client.api.events import follow_events
from baton_client.api.leases import complete_run
from baton_client.api.runs import get_run, list_runs, submit_run
from baton_client.api.workers import claim_runs, register_worker
from baton_client.models import Claim, CompleteRun, Event, Problem, RegisterWorker, RetryPolicy, State, SubmitRun


def follow(client: AuthenticatedClient, after: int | None, **filters: str) -> tuple[list[Event], int]:
    """What has happened since, and the id to go on after."""
    place = {} if after is None else {"after": after}
    text = follow_events.sync(client=client, wait_ms=1, **place, **filters)
    frames = [dict(line.split(": ", 1) for line in frame.splitlines()) for frame in text.split("\n\n") if frame]
    events = [Event.from_dict(json.loads(frame["data"])) for frame in frames if "data" in frame]
    return events, int(frames[-1]["id"])


def main(url: str, key: str) -> None:
    client = AuthenticatedClient(base_url=url, token=key)

    # From here on, with the client's own way of keeping a connection open.
    listening = follow_events._get_kwargs(kind="run.ended", queue="mail", wait_ms=30_000)
    stream = client.get_httpx_client().stream(**listening)
    lines = stream.__enter__().iter_lines()
    start = next(int(line.removeprefix("id: ")) for line in lines if line.startswith("id: "))

    worker = RegisterWorker(types=["send"], queues=["mail"], name="generated", max_concurrent=3)
    worker = register_worker.sync(client=client, body=worker)
    assert worker is not None and worker.worker_id, worker

    # Any JSON is an input, an object no more than a list or a number.
    inputs = [{"to": "ada"}, [1, None, "x"], 7]
    runs = []
    for value in inputs:
        body = SubmitRun(queue="mail", type_="send", input_=value, retry=RetryPolicy(max_attempts=2))
        run = submit_run.sync(client=client, body=body)
        assert run.state == State.PENDING and run.created, run
        runs.append(run.id)

    refused = submit_run.sync(client=client, body=SubmitRun(queue="mail", type_="send", priority=200))
    assert isinstance(refused, Problem) and refused.code == "invalid", refused

    claimed = claim_runs.sync(id=worker.worker_id, client=client, body=Claim(queue="mail", max_=3, claim_no=1)).runs
    assert [run.run_id for run in claimed] == runs, claimed
    assert [run.input_ for run in claimed] == inputs, claimed

    first = claimed[0]
    done = complete_run.sync(id=first.run_id, client=client, body=CompleteRun(lease=first.lease, output=["sent", 1]))
    assert done.state == State.COMPLETED, done

    page = list_runs.sync(client=client, state=[State.ASSIGNED, State.COMPLETED], total=True)
    assert sorted(run.id for run in page.runs) == sorted(runs) and page.total == 3, page
    page = list_runs.sync(client=client, state=[State.COMPLETED], id_suffix=runs[0][-6:])
    assert [run.id for run in page.runs] == runs[:1], page

    run = get_run.sync(id=runs[0], client=client)
    assert run.state == State.COMPLETED and run.output == ["sent", 1] and run.input_ == {"to": "ada"}, run
    missing = get_run.sync_detailed(id="00000000-0000-7000-8000-000000000000", client=client)
    assert missing.status_code == 404 and missing.parsed.code == "not_found", missing

    ended = next(Event.from_dict(json.loads(line.removeprefix("data: "))) for line in lines if line.startswith("data: "))
    assert (ended.kind, ended.run_id) == ("run.ended", runs[0]), ended
    stream.__exit__(None, None, None)
    # The same for a client that asks now and then.
    events, last = follow(client, start, kind="run.ended")
    assert [event.run_id for event in events] == runs[:1] and last >= ended.id, events
    assert follow(client, last, kind="run.ended")[0] == []
    print("completed as wanted")


if __name__ == "__main__":
    main(*sys.argv[1:])
