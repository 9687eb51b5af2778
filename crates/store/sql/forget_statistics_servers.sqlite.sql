-- Forgets servers that have written no statistics for long.
delete from statistics_servers where server in (select server from statistics_servers where at < ?1 limit ?2)
