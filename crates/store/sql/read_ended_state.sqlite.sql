-- The state in which a run ended.
select state from ended where run_id = ?1
