-- Notes refused writes, or adds them to those that wanted the same under the same lease.
insert into refused_writes (run_id, epoch, verb, position, current_epoch, worker_id, name, at, last_at, times, bytes)
select given.run_id, given.epoch, given.verb, given.position, given.current_epoch, given.worker_id, given.name,
    clock.now - given.first_ms_ago, clock.now - given.last_ms_ago, given.times, given.bytes
from unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::integer[], $6::bigint[], $7::uuid[], $8::text[], $9::bigint[], $10::bigint[],
            $11::bigint[], $12::bigint[])
    as given(run_id, epoch, verb, position, current_epoch, worker_id, name, first_ms_ago, last_ms_ago, times, bytes),
    (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) as clock
on conflict (run_id, epoch, verb, position) do update set
    last_at = greatest(refused_writes.last_at, excluded.last_at),
    times = refused_writes.times + excluded.times,
    bytes = greatest(refused_writes.bytes, excluded.bytes)
