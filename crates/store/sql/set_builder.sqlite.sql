-- Notes a builder's new incarnation, if its name is free or was registered with the same key. A number is left out, so that the
-- token before the new one is nobody's.
insert into builders (namespace, name_id, worker_id, key_id, token, first_token, token_used, token_until, registered_at)
values (?1, ?2, ?3, ?4, 1, 1, 0, ?5, ?6)
on conflict (namespace, name_id) do update set
    replaced_id = nullif(builders.worker_id, excluded.worker_id),
    worker_id = excluded.worker_id,
    token = builders.token + 2,
    first_token = builders.token + 2,
    token_used = 0,
    token_until = excluded.token_until,
    registered_at = excluded.registered_at,
    revoked_at = null
where builders.key_id is excluded.key_id
returning token, replaced_id
