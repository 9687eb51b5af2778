-- How many workers there are.
select count(*)
from workers join worker_live on worker_live.worker_id = workers.worker_id
where (?1 is null or namespace = ?1)
    and (?2 is null or status = ?2)
    and (?3 is null or exists (select 1 from json_each(info, '$.queues') where value = ?3))
