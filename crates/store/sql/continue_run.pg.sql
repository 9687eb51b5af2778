-- Gives what a run has besides itself to the one that goes on in its place: relatives and deadline. For those the run has not ended. Its
-- children were started nowhere in the other.
with old as materialized (select parent, parent_position, has_children from live where run_id = $1::uuid),
noted as (insert into continued (run_id, next) values ($1, $2::uuid)),
related as (insert into relatives (run_id, parent) select $2, parent from relatives where run_id = $1),
due as (update deadlines set run_id = $2 where run_id = $1),
moved as (update live set parent = $2, parent_position = null where parent = $1),
given as (
    update live set parent = old.parent, parent_position = old.parent_position, has_children = old.has_children
    from old where live.run_id = $2
)
update live set parent = null, parent_position = null, has_children = false where run_id = $1
