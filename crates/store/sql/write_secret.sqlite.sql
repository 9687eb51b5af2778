-- Adds a generation of the installation's secret, or wraps one that is there anew. ?4 is now.
insert into secrets (generation, wrapped, key_id, made_at) values (?1, ?2, ?3, ?4)
on conflict (generation) do update set wrapped = excluded.wrapped, key_id = excluded.key_id
