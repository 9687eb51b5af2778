-- Whether there may be runs to take back: held by offline workers, or with a deadline that has passed. Locks nothing.
select exists (select from worker_live where status = 2 and active > 0)
    or coalesce((
        select least(timeout_at, lease_until, cancel_by) from live
        where place = 3 and least(timeout_at, lease_until, cancel_by) is not null
        order by least(timeout_at, lease_until, cancel_by) limit 1
    ) <= coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), false)
