-- Takes runs in: one row in runs and one in live for each that is new. Identifiers are built as RunId::new builds them,
-- numbered in the order of the arrays. Of two runs with the same idempotency key the first wins.
-- Some runs may be meant ($17) for a worker that waits ($19): they are its own from the start, all of them, if its queue and it
-- can be served without further ado and nobody else's run stands in its lanes. Whoever has it locked is not waited for.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
taker as materialized (
    select worker_live.worker_id
    from clock
    join queues on queues.queue_id = $18::integer
    join worker_live on worker_live.worker_id = $19::uuid
    where coalesce(queues.paused_until, 0) <= clock.now and queues.rate_per_second is null and queues.key_limit is null
      and worker_live.status = 0 and worker_live.unfit is null
      and worker_live.active + (select count(*) from unnest($17::boolean[]) as meant(is_meant) where is_meant)
          <= worker_live.max_concurrent
      and not is_answered(worker_live.answered_no, worker_live.answered_bits, $20::bigint)
      and not exists (
        select 1 from unnest($23::integer[]) with ordinality as wanted(lane_id, ordinal)
        cross join generate_series(0, $25::integer - 1) as step(level)
        cross join lateral (
            select 1 from live
            where live.lane_id = wanted.lane_id and live.level = step.level and live.place = 0
              and live.order_at >= ($24::bigint[])[(wanted.ordinal - 1) * $25 + step.level + 1]
            limit 1
        ) ready
      )
      and not exists (
        select 1 from unnest($23) as wanted(lane_id)
        cross join lateral (
            select 1 from live
            where live.lane_id = wanted.lane_id and live.place = 1 and live.due_at <= clock.now
            limit 1
        ) due
      )
    for update of worker_live skip locked
),
fresh as materialized (
    select numbered.*, (
        lpad(to_hex(now), 12, '0') || '7' || lpad(to_hex(sequence >> 14), 3, '0')
        || to_hex(32768 + (sequence & 16383)) || lpad(to_hex(dice), 12, '0')
    )::uuid as run_id
    from (
        select ordered.*, nextval('run_sequence') & 67108863 as sequence
        from (
            select clock.now, given.*, case when given.is_meant then (select worker_id from taker) end as worker_id,
                greatest(clock.now, coalesce(
                    due_at_given, least(due_after, 9223372036854775807 - clock.now) + clock.now)) as due_at
            from clock cross join unnest(
                $2::integer[], $3::integer[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::text[], $10::text[], $11::text[], $12::bytea[], $13::text[], $14::uuid[], $15::bytea[], $16::bigint[], $17,
                $26::integer[], $28::text[]
            ) with ordinality as given(
                queue_id, lane_id, priority, level, due_after, due_at_given, place_given,
                key, affinity, idempotency_key, fingerprint, options, retry_of, input, dice, is_meant, size, trace, ordinal)
            order by given.ordinal
        ) ordered
    ) numbered
),
inserted as (
    insert into runs (run_id, lane_id, priority, submitted_at, due_at, key, affinity, idempotency_key, fingerprint,
                      options, retry_of, input, trace)
    select run_id, lane_id, priority, now, due_at, key, affinity, idempotency_key, fingerprint, options, retry_of, input,
           trace
    from fresh
    on conflict (idempotency_key) where idempotency_key is not null do nothing
    returning run_id
),
placed as (
    insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at, key, affinity, size,
                      epoch, worker_id, claim_no, claimed_at, started_at, timeout_at, lease_until)
    select run_id, queue_id, lane_id,
           case when worker_id is null then 0 when $21::boolean then 2 else 1 end,
           case when worker_id is not null then 3 when due_at > now then 1 else 0 end,
           level, priority, coalesce(place_given, due_at), due_at, key, affinity, size,
           case when worker_id is null then 0 else 1 | $27::bigint end, worker_id,
           case when worker_id is not null then $20 end,
           case when worker_id is not null then now end,
           case when worker_id is not null and $21 then now end,
           case when worker_id is not null then now + (options::json ->> 'timeout_ms')::bigint end,
           case when worker_id is not null then now + $22::bigint end
    from fresh join inserted using (run_id)
    returning run_id, worker_id, timeout_at
),
counted as (
    update worker_live set
        active = worker_live.active + taken.runs,
        answered_no = greatest(worker_live.answered_no, $20),
        answered_bits = answered_with(worker_live.answered_no, worker_live.answered_bits, $20)
    from (select worker_id, count(*)::integer as runs from placed where worker_id is not null group by worker_id) taken
    where worker_live.worker_id = taken.worker_id
)
select fresh.run_id, fresh.now, fresh.due_at, coalesce(fresh.place_given, fresh.due_at) as order_at,
       placed.run_id is not null as is_new, placed.worker_id is not null as is_taken, placed.timeout_at
from fresh left join placed using (run_id)
order by fresh.ordinal
