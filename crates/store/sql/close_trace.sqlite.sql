-- The spans of a run were sent, or never will be.
delete from open_traces where run_id = ?1
