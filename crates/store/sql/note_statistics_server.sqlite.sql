-- Notes that a server writes this block, unless it has written it before.
insert into statistics_servers (server, seq, at) values (?1, ?2, ?3)
on conflict (server) do update set seq = excluded.seq, at = excluded.at where statistics_servers.seq < excluded.seq
