-- Notes that an API key was used.
update api_keys set used_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
where id = $2::text
