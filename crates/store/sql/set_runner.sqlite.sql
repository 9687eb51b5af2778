-- Writes down where a runner stands that is still where it was.
update runners set
    state = ?4, epoch = ?5, claim_no = ?6, run_id = ?7, deadline = ?8, registered_at = ?9, cause = ?10, since = ?11, machine_id = ?12,
    kind = ?13, usage = ?14, cpu = ?15, memory_mib = ?16, seen_at = ?17, uses = ?18, detail = ?19, token_hash = ?20
where runner_id = ?1 and state = ?2 and epoch = ?3
