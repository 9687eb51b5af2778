-- Keeps the installation's secret, or reads the one that is kept already.
insert into meta (key, value) values ('secret', $1::bytea)
on conflict (key) do update set value = meta.value
returning value
