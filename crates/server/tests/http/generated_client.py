"""Does what a submitter and a worker do, through a client that was generated from /openapi.json: URL and API key are given."""

import sys

from baton_client import AuthenticatedClient
from baton_client.api.leases import complete_run
from baton_client.api.runs import get_run, list_runs, submit_run
from baton_client.api.workers import claim_runs, register_worker
from baton_client.models import Claim, CompleteRun, Problem, RegisterWorker, RetryPolicy, State, SubmitRun


def main(url: str, key: str) -> None:
    client = AuthenticatedClient(base_url=url, token=key)

    worker = register_worker.sync(client=client, body=RegisterWorker(types=["send"], queues=["mail"], name="generated"))
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
    print("completed as wanted")


if __name__ == "__main__":
    main(*sys.argv[1:])
