-- Keeps a setting that somebody changed.
insert into settings (name, value, changed_at) values (?1, ?2, ?3)
on conflict (name) do update set value = excluded.value, changed_at = excluded.changed_at
