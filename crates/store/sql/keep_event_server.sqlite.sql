-- Says what a server listens for and what it writes.
insert into event_servers (server, wants, writes, until) values (?1, ?2, ?3, ?4)
on conflict (server) do update set wants = excluded.wants, writes = excluded.writes, until = excluded.until
