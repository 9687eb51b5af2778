-- Notes a refused write, or adds it to those that wanted the same under the same lease.
insert into refused_writes (run_id, epoch, verb, position, current_epoch, worker_id, name, at, last_at, times, bytes)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
on conflict (run_id, epoch, verb, position) do update set
    last_at = max(last_at, excluded.last_at), times = times + excluded.times, bytes = max(bytes, excluded.bytes)
