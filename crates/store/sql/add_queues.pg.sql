-- Makes queues that are not there yet, in a fixed order so that two servers do not wait for each other in a circle.
insert into queues (namespace, name)
select distinct namespace, name from unnest($1::text[], $2::text[]) as names(namespace, name) order by namespace, name
on conflict (namespace, name) do nothing
