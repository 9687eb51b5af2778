-- The place of the last waiting run of a key on this level. One seek for each place: a key may have a long backlog.
select max(order_at) from (
    select max(order_at) as order_at from live where queue_id = ?1 and key = ?2 and place = 0 and level = ?3
    union all
    select max(order_at) from live where queue_id = ?1 and key = ?2 and place = 2 and level = ?3
)
