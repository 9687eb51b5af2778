-- Takes runs in: one row in runs and one in live for each that is new. Identifiers are built as RunId::new builds them,
-- numbered in the order of the arrays. Of two runs with the same idempotency key the first wins.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
fresh as materialized (
    select numbered.*, (
        lpad(to_hex(now), 12, '0') || '7' || lpad(to_hex(sequence >> 14), 3, '0')
        || to_hex(32768 + (sequence & 16383)) || lpad(to_hex(dice), 12, '0')
    )::uuid as run_id
    from (
        select ordered.*, nextval('run_sequence') & 67108863 as sequence
        from (
            select clock.now, given.*,
                greatest(clock.now, coalesce(
                    due_at_given, least(due_after, 9223372036854775807 - clock.now) + clock.now)) as due_at
            from clock cross join unnest(
                $2::integer[], $3::integer[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[],
                $9::text[], $10::text[], $11::text[], $12::bytea[], $13::text[], $14::uuid[], $15::bytea[], $16::bigint[]
            ) with ordinality as given(
                queue_id, lane_id, priority, level, due_after, due_at_given, place_given,
                key, affinity, idempotency_key, fingerprint, options, retry_of, input, dice, ordinal)
            order by given.ordinal
        ) ordered
    ) numbered
),
inserted as (
    insert into runs (run_id, lane_id, priority, submitted_at, due_at, key, affinity, idempotency_key, fingerprint,
                      options, retry_of, input)
    select run_id, lane_id, priority, now, due_at, key, affinity, idempotency_key, fingerprint, options, retry_of, input
    from fresh
    on conflict (idempotency_key) where idempotency_key is not null do nothing
    returning run_id
),
placed as (
    insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at, key, affinity)
    select run_id, queue_id, lane_id, 0, case when due_at > now then 1 else 0 end, level, priority,
           coalesce(place_given, due_at), due_at, key, affinity
    from fresh join inserted using (run_id)
)
select fresh.run_id, fresh.now, fresh.due_at, coalesce(fresh.place_given, fresh.due_at) as order_at,
       inserted.run_id is not null as is_new
from fresh left join inserted using (run_id)
order by fresh.ordinal
