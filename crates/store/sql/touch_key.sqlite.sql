-- Notes that an API key was used.
update api_keys set used_at = ?2 where id = ?1
