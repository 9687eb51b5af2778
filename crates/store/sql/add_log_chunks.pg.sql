-- Adds chunks to a log that is locked.
insert into log_chunks (run_id, last, lines, bytes_before, at, body)
select $1::uuid, given.last, given.lines, given.bytes_before, $2::bigint, given.body
from unnest($3::bigint[], $4::integer[], $5::bigint[], $6::text[]) as given(last, lines, bytes_before, body)
