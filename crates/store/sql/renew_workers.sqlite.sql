-- Renews workers' leases to now + ttl, never adding up. ?1 is a JSON list of [worker in hex, told its health, health, unfit,
-- new ttl].
update worker_live
set lease_until = ?2 + coalesce(said.ttl_ms, worker_live.ttl_ms), ttl_ms = coalesce(said.ttl_ms, worker_live.ttl_ms), seen_at = ?2, health = iif(said.measured, said.health, worker_live.health),
    unfit = iif(said.measured, said.unfit, worker_live.unfit)
from (
    select unhex(value ->> 0) as worker_id, value ->> 1 as measured, value -> 2 as health, value ->> 3 as unfit,
        value ->> 4 as ttl_ms
    from json_each(?1)
) as said
where worker_live.worker_id = said.worker_id and status <> 2
returning worker_live.worker_id, status, lease_until, active
