-- Hands locked runs to workers, all or none: when one of the workers cannot take its share, or its claim was answered before,
-- nothing changes.
-- Workers are locked in the order of their identifiers, so that two claims do not wait for each other in a circle.
-- The rows are locked, so they are still on the spots where they were picked. Going there and not through an index keeps the
-- planner, which may have counted while the table was empty, from reading all of it for a few rows.
-- What is said of numbers and bits is core::answered, written out: large batches are planned each time, and a function would have
-- to be read for it each time.
with fit as materialized (
    select worker_live.worker_id, share.runs, share.number, share.bits
    from unnest($2::uuid[], $3::integer[], $10::bigint[], $12::bigint[]) as share(worker_id, runs, number, bits)
    join worker_live using (worker_id)
    where worker_live.status = 0 and worker_live.unfit is null
      and worker_live.active + share.runs <= worker_live.max_concurrent
      and not case
        when share.number <= 0 or share.number - worker_live.answered_no > 62 then false
        when share.number >= worker_live.answered_no
            then (worker_live.answered_bits << (share.number - worker_live.answered_no)::integer) & share.bits <> 0
        when worker_live.answered_no - share.number > 62 then true
        else (worker_live.answered_bits >> (worker_live.answered_no - share.number)::integer) & share.bits <> 0
            or share.bits >> (63 - (worker_live.answered_no - share.number))::integer <> 0
      end
    order by worker_live.worker_id
    for update of worker_live
),
verdict as materialized (select count(*) = cardinality($2) as all_fit from fit),
counted as (
    update worker_live set
        active = worker_live.active + fit.runs,
        answered_no = greatest(worker_live.answered_no, fit.number),
        answered_bits = case
            when fit.number <= 0 or worker_live.answered_no - fit.number > 62 then worker_live.answered_bits
            when fit.number - worker_live.answered_no > 62 then fit.bits
            when fit.number >= worker_live.answered_no
                then (worker_live.answered_bits << (fit.number - worker_live.answered_no)::integer) | fit.bits
            else worker_live.answered_bits | (fit.bits << (worker_live.answered_no - fit.number)::integer)
        end
    from fit, verdict
    where worker_live.worker_id = fit.worker_id and verdict.all_fit
)
update live set
    state = case when given.start then 2 else 1 end,
    place = 3,
    told = 0,
    epoch = (live.epoch & 4294967295) + 1 | $11::bigint,
    worker_id = given.worker_id,
    claim_no = given.claim_no,
    claimed_at = $1::bigint,
    started_at = case when given.start then $1 end,
    timeout_at = case when cold.options is not null then $1 + (cold.options::json ->> 'timeout_ms')::bigint end,
    lease_until = $1 + given.lease_ms
from verdict,
    unnest($4::uuid[], $5::uuid[], $6::bigint[], $7::boolean[], $8::bigint[], $9::text[]::tid[])
        with ordinality as given(run_id, worker_id, claim_no, start, lease_ms, spot, ordinal)
    cross join lateral (
        select runs.options, runs.submitted_at, runs.input, runs.trace from runs where runs.run_id = given.run_id limit 1
    ) cold
where live.ctid = given.spot and verdict.all_fit
returning given.ordinal, live.run_id, live.lane_id, live.epoch, live.failures, live.priority, cold.submitted_at,
    live.timeout_at, live.key, cold.input, cold.trace, $1 - live.due_at as waited_ms
