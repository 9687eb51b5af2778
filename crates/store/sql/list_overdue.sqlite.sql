-- Held runs with a deadline that has come by ?1 (now), and which it is: 0 the grace time after a cancel, 1 the timeout,
-- 2 the lease. The conditions are those of the index live_deadline, word by word.
select run_id,
    case when cancel_by <= ?1 then 0 when timeout_at <= ?1 then 1 else 2 end
from live
where place = 3 and coalesce(timeout_at, lease_until, cancel_by) is not null
    and min(coalesce(timeout_at, 9223372036854775807), coalesce(lease_until, 9223372036854775807),
        coalesce(cancel_by, 9223372036854775807)) <= ?1
order by min(coalesce(timeout_at, 9223372036854775807), coalesce(lease_until, 9223372036854775807),
    coalesce(cancel_by, 9223372036854775807)), run_id
limit ?2
