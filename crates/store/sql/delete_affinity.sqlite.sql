-- Forgets whose caches were warm long ago.
delete from affinity where at < ?1
