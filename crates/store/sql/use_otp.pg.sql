-- Uses up the one-time password of a live lease that was claimed not too long ago. Says whether this call did, and otherwise
-- whether the lease is live and its time has passed.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
held as materialized (
    select live.claimed_at from live
    where live.run_id = $2::uuid and live.epoch = $3::bigint and live.state in (1, 2) for key share
),
used as (
    insert into machines (run_id, epoch, otp_used_at)
    select $2, $3, clock.now from held cross join clock where clock.now <= held.claimed_at + $4::bigint
    on conflict (run_id, epoch) do update set otp_used_at = excluded.otp_used_at where machines.otp_used_at is null
    returning 1
)
select exists (select 1 from used) as is_used, clock.now > held.claimed_at + $4 as is_late from held cross join clock
