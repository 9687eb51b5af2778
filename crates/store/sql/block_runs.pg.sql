-- Sets runs aside whose key is full.
update live set place = 2 where run_id = any($1::uuid[]) and place = 0
