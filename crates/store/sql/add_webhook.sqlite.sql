-- Makes a webhook, if there is none of its name and there may be one more.
insert into webhooks (webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision)
select ?2, ?3, ?4, ?5, ?6, 1, '', ?7, null, 0, ?8, ?1, 0, 0, null, null, 0, ?1, ?9, 1
where (select count(*) from webhooks where namespace is ?3) < ?10 and (select count(*) from webhooks) < ?11
on conflict do nothing
returning webhook_id, namespace, name, url, filter, state, why, secret, secret_before, before_until, position, since, waiting, missed,
    failing_since, last_success_at, held_until, created_at, created_by, revision
