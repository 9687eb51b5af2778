-- The spans of these runs were sent, or never will be.
delete from open_traces where run_id = any($1::uuid[])
