-- Where the oldest block of statistics begins that has buckets short enough.
select at from statistics
where at >= $1::bigint and at < $2::bigint and step_ms <= $3::bigint
order by at limit 1
