-- Forgets servers that have written no statistics for long.
delete from statistics_servers where server = any (array(
    select server from statistics_servers where at < $1::bigint limit $2::bigint for update skip locked
))
