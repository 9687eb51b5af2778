-- The number of a run's last message, of the one with a key, and of the request to cancel.
select
    (select max(number) from inbox where run_id = ?1),
    (select number from inbox where run_id = ?1 and key = ?2),
    (select number from inbox where run_id = ?1 and kind = 2)
