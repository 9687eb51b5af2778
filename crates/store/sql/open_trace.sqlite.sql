-- Notes that the spans of a new run are to be sent.
insert into open_traces (run_id) values (?1) on conflict do nothing
