-- Where the oldest block of statistics begins that has buckets short enough.
select at from statistics where at >= ?1 and at < ?2 and step_ms <= ?3 order by at limit 1
