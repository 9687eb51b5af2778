-- Writes down where a claim stands.
update pool_claims set state = ?2, deadline = ?3, ready_at = ?4, ended_at = ?5, reason = ?6,
    detail = ?7
where claim_no = ?1
