-- Where a signal was taken.
select position from steps where run_id = ?1 and message = ?2
