-- Sets runs aside whose key is full. They are locked, and so still claimable.
update live set place = 2 where run_id = any($1::uuid[])
