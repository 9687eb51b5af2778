-- Makes a queue on first use.
insert into queues (namespace, name) values (?1, ?2) on conflict do nothing
