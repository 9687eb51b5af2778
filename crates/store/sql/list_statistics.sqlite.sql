-- Blocks of statistics, with buckets that are short enough.
select number, server, seq, at, step_ms, body
from statistics
where at >= ?1 and at < ?2 and step_ms <= ?3
order by number limit ?4
