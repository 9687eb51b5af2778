-- Notes that the spans of new runs are to be sent.
insert into open_traces (run_id) select unnest($1::uuid[]) on conflict do nothing
