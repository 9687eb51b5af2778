-- Writes down where a claim stands.
update pool_claims set state = $2::smallint, deadline = $3::bigint, ready_at = $4::bigint, ended_at = $5::bigint, reason = $6::smallint,
    detail = $7::text
where claim_no = $1::bigint
