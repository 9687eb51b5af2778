-- Locks a namespace, so that what it may have is counted by one at a time.
select schedules_max from namespaces where name = $1::text for update
