-- Marks held runs as started.
update live set state = 2, started_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
from unnest($2::uuid[], $3::integer[]) as held(run_id, epoch)
where live.run_id = held.run_id and live.epoch = held.epoch and case when live.state = 1 then true end
returning live.run_id, live.epoch, live.cancel_by is not null as cancelling
