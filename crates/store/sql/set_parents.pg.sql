-- Notes who started runs, and where.
with given as materialized (
    select * from unnest($1::uuid[], $2::uuid[], $3::integer[]) as given(run_id, parent, position)
),
noted as (insert into relatives (run_id, parent) select given.run_id, given.parent from given),
marked as (
    update live set has_children = true
    where live.run_id = any(array(select given.parent from given)) and case when not live.has_children then true end
)
update live set parent = given.parent, parent_position = given.position
from given
where live.run_id = given.run_id
