-- Runs whose relatives do not know yet that they have ended.
select run_id, parent, has_children from outbox order by run_id limit $1::bigint
