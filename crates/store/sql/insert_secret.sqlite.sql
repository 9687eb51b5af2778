-- Keeps the installation's secret, unless there is one.
insert into meta (key, value) values ('secret', ?1) on conflict do nothing
