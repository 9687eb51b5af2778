-- Notes a sign of life of the machine of a live lease, and how far it says it is.
insert into machines (run_id, epoch, ready_at, seen_at, progress)
select run_id, epoch, iif(?3, ?4, null), ?4, ?5 from live where run_id = ?1 and epoch = ?2 and state in (1, 2)
on conflict (run_id, epoch) do update set
    ready_at = coalesce(machines.ready_at, excluded.ready_at), seen_at = excluded.seen_at,
    progress = coalesce(excluded.progress, machines.progress)
