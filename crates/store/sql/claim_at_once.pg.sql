-- Claims for one waiting worker in one statement, where nothing asks for more: its queue has no pause, rate or key limit, no
-- run has to be made claimable first, the worker can take all it asks for, and no earlier call of this claim was answered ($8, its
-- number; $12 without one). Otherwise it changes nothing and returns no row.
-- The worker is locked first, against the usual order; this waits for no other row after it, so no circle can close.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
plain as materialized (
    select clock.now
    from clock join queues on queues.queue_id = $2::integer
    where coalesce(queues.paused_until, 0) <= clock.now and queues.rate_per_second is null and queues.key_limit is null
      and not exists (
        select 1 from unnest($3::integer[]) as wanted(lane_id)
        cross join lateral (
            select 1 from live
            where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at <= clock.now
            limit 1
        ) due
      )
),
fit as materialized (
    select plain.now
    from plain cross join worker_live
    where worker_live.worker_id = $4::uuid and worker_live.status = 0 and worker_live.unfit is null
      and worker_live.active + $5::integer <= worker_live.max_concurrent
      and not is_answered(worker_live.answered_no, worker_live.answered_bits, $8::bigint)
      and (not $12::boolean or worker_live.active = 0)
    for update of worker_live
),
found as (
    select first.*, sum(first.size) over (order by first.level, first.order_at, first.run_id) - first.size as size_before
    from fit cross join unnest($3) with ordinality as wanted(lane_id, ordinal)
    cross join lateral (
        select ready.*
        from generate_series(0, $7::integer - 1) as step(level)
        cross join lateral (
            select live.run_id, live.lane_id, live.level, live.order_at, live.size
            from live
            where live.lane_id = wanted.lane_id and live.level = step.level and live.place = 0
              and live.order_at >= ($6::bigint[])[(wanted.ordinal - 1) * $7 + step.level + 1]
            order by live.order_at, live.run_id limit $5
        ) ready
        limit $5
    ) first
    order by first.level, first.order_at, first.run_id
    limit $5
),
picked as materialized (select * from found where size_before < $11::bigint),
locked as materialized (
    select free.* from picked
    cross join lateral (
        select live.run_id from live
        where live.run_id = picked.run_id and case when live.place = 0 then true end
        for update skip locked
    ) free
),
claimed as (
    update live set
        state = case when $9::boolean then 2 else 1 end,
        place = 3,
        told = 0,
        epoch = (live.epoch & 4294967295) + 1 | $13::bigint,
        worker_id = $4,
        claim_no = $8,
        claimed_at = (select now from fit),
        started_at = case when $9 then (select now from fit) end,
        timeout_at = (select now from fit) + (
            select (runs.options::json ->> 'timeout_ms')::bigint from runs
            where runs.run_id = live.run_id and runs.options is not null
        ),
        lease_until = (select now from fit) + $10::bigint
    -- An array and not a join: the plan is made once, without knowing how few these are.
    where live.run_id = any(array(select locked.run_id from locked))
    returning live.run_id, live.epoch, live.failures, live.priority, live.timeout_at, live.key, live.due_at
),
counted as (
    update worker_live set
        active = worker_live.active + given.runs,
        answered_no = greatest(worker_live.answered_no, $8),
        answered_bits = answered_with(worker_live.answered_no, worker_live.answered_bits, $8)
    from (select count(*)::integer as runs from claimed) given
    where worker_live.worker_id = $4 and given.runs > 0
)
select fit.now, next.due_at as next_due_at, picked.run_id, picked.lane_id, picked.level, picked.order_at, picked.size,
    claimed.run_id is not null as is_ours, claimed.epoch, claimed.failures, claimed.priority, claimed.timeout_at,
    claimed.key, cold.submitted_at, cold.input, cold.trace, fit.now - claimed.due_at as waited_ms
from fit
cross join lateral (
    select min(soonest.due_at) as due_at from unnest($3) as wanted(lane_id)
    cross join lateral (
        select live.due_at from live
        where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at > fit.now
        order by live.due_at limit 1
    ) soonest
) next
left join picked on true
left join claimed on claimed.run_id = picked.run_id
left join lateral (select runs.submitted_at, runs.input, runs.trace from runs where runs.run_id = claimed.run_id limit 1) cold on true
order by picked.level, picked.order_at, picked.run_id
