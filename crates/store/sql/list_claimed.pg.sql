-- Lists the runs a worker holds from one claim, or those it has not started although it got them so long ago.
select live.run_id, live.lane_id, live.epoch, live.failures, live.priority, runs.submitted_at, live.timeout_at, live.key,
    runs.input, runs.trace, live.claimed_at - live.due_at as waited_ms
from live join runs using (run_id)
where live.worker_id = $1::uuid and live.place = 3
  and (live.claim_no = $2::bigint or $2 is null and live.state = 1
    and live.claimed_at <= coalesce($3::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $4::bigint)
order by live.run_id
