-- Makes a worker drain, or take work again; an offline one stays as it is.
with changed as (
    update worker_live set status = $2::smallint, status_reason = $3::text
    where worker_id = $1::uuid and status <> 2
)
select 1 from worker_live where worker_id = $1
