-- Blocks of statistics, with buckets that are short enough.
select number, server, seq, at, step_ms, body
from statistics
where at >= $1::bigint and at < $2::bigint and step_ms <= $3::bigint
order by number limit $4::bigint
