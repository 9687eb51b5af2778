-- How the lease of a run with this epoch ended.
select coalesce(
    (select lease_end from ended where run_id = ?1 and epoch = ?2),
    (select lease_end from attempts where run_id = ?1 and epoch = ?2))
