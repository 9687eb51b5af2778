-- Finds which claims of workers were answered before: by their number, or, without one, because the worker holds runs that it has
-- not started although it got them so long ago.
select given.ordinal
from unnest($2::uuid[], $3::bigint[], $4::bigint[]) with ordinality as given(worker_id, number, age_ms, ordinal)
join worker_live using (worker_id)
where case
    when given.number > 0 then is_answered(worker_live.answered_no, worker_live.answered_bits, given.number)
    when worker_live.active > 0 then exists (
        select 1 from live
        where live.worker_id = given.worker_id and live.place = 3 and live.state = 1
          and live.claimed_at <= coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - given.age_ms
    )
    else false
end
