-- Keeps settings that somebody changed.
insert into settings (name, value, changed_at)
select given.name, given.value, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
from unnest($2::text[], $3::text[]) as given(name, value)
on conflict (name) do update set value = excluded.value, changed_at = excluded.changed_at
