-- What is known of the lease of run ?1 with epoch ?2, under which a write was refused: the newest epoch, whether the lease is good after
-- all, how it ended, and who had it.
select coalesce(live.epoch, ended.epoch) as current_epoch,
    coalesce(live.place = 3 and live.epoch = ?2, 0) as is_held,
    coalesce(iif(ended.epoch = ?2, ended.lease_end, null), attempts.lease_end) as lease_end,
    coalesce(iif(ended.epoch = ?2, ended.worker_id, null), attempts.worker_id) as worker_id
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
left join attempts on attempts.run_id = runs.run_id and attempts.epoch = ?2
where runs.run_id = ?1 and (live.run_id is not null or ended.run_id is not null)
