-- What a run has to do with others.
select
    (select parent from relatives where run_id = ?1),
    (select next from continued where run_id = ?1),
    exists (select 1 from inbox where run_id = ?1 and kind = 2)
