-- Lists runs that a worker got before a time and still holds, without those it knows of.
with known as materialized (select * from unnest($4::uuid[], $5::bigint[]) as known(run_id, epoch))
select live.run_id, live.epoch from live
where live.worker_id = $2::uuid and live.place = 3
  and live.claimed_at < coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $3::bigint
  and (live.run_id, live.epoch) not in (select known.run_id, known.epoch from known)
order by live.run_id limit $6::bigint
