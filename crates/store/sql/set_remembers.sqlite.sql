-- Makes a run that nobody has held count as held before: its first claim reads what it remembers.
update live set epoch = 1 where run_id = ?1 and epoch = 0
