-- Tells other servers of work and of news for workers. Only a hint, so nobody waits for a disk.
select set_config('synchronous_commit', 'off', true), pg_notify('baton', $1::text)
