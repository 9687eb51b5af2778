-- Adds generations of the installation's secret, and wraps those that are there anew.
insert into secrets (generation, wrapped, key_id, made_at)
select given.generation, given.wrapped, given.key_id, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
from unnest($2::int[], $3::bytea[], $4::text[]) as given(generation, wrapped, key_id)
on conflict (generation) do update set wrapped = excluded.wrapped, key_id = excluded.key_id
