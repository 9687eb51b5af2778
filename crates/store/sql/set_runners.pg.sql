-- Writes down where runners stand that are still where they were.
update runners set
    state = given.state, epoch = given.epoch, claim_no = given.claim_no, run_id = given.run_id, deadline = given.deadline,
    registered_at = given.registered_at, cause = given.cause, since = given.since, machine_id = given.machine_id,
    kind = given.kind, usage = given.usage, cpu = given.cpu, memory_mib = given.memory_mib, seen_at = given.seen_at,
    uses = given.uses, detail = given.detail, token_hash = given.token_hash
from unnest($1::uuid[], $2::smallint[], $3::integer[], $4::smallint[], $5::integer[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
    $10::smallint[], $11::bigint[], $12::text[], $13::text[], $14::smallint[], $15::integer[], $16::bigint[], $17::bigint[],
    $18::integer[], $19::text[], $20::bytea[])
    as given(runner_id, was_state, was_epoch, state, epoch, claim_no, run_id, deadline, registered_at, cause, since, machine_id, kind, usage,
        cpu, memory_mib, seen_at, uses, detail, token_hash)
where runners.runner_id = given.runner_id and runners.state = given.was_state and runners.epoch = given.was_epoch
returning runners.runner_id
