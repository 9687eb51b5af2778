-- A token was shown. The newest ($3 = token) is good, and so is the one before while the newest is unused; a new one is wanted when
-- $4 is not null. Those from before it registered again are of no use; a dead one of its own revokes its builder, whatever the time. Time passes only for
-- polls: a builder needs its token for as long as it builds.
update builders set
    token = case when $3::bigint = token and $4::bigint is not null then token + 1 else token end,
    token_used = case when $3 = token then $4 is null else token_used end,
    token_until = case
        when $4 is not null and ($3 = token or $3 = token - 1 and not token_used) then clock.now + $4
        else token_until
    end,
    revoked_at = case when $3 < token - 1 or $3 = token - 1 and token_used then clock.now end
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
where worker_id = $2::uuid and revoked_at is null and $3 between first_token and token
  and ($4::bigint is null or clock.now <= token_until or $3 < token - 1 or $3 = token - 1 and token_used)
returning namespace, name_id, worker_id, key_id, token, token_used, token_until, registered_at, revoked_at, succeeded, failed
