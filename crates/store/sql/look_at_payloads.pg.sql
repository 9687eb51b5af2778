-- Looks at payloads that nobody has looked at for so long ($2): those that no row has referred to for as long are given up. Two looks, because
-- a transaction that takes a reference over from one row to another may be under way at the first.
with chosen as materialized (
    select payload_id, reference, unused_since, doomed
    from payloads where looked_at <= $1::bigint - $2::bigint
    order by looked_at, payload_id limit $3::bigint
    for update skip locked
),
looked as materialized (
    select chosen.*,
        exists (select 1 from runs
            where octet_length(runs.input) = 88 and substr(runs.input, 1, 1) = '\xff' and runs.input = chosen.reference)
        or exists (select 1 from ended
            where octet_length(ended.output) = 88 and substr(ended.output, 1, 1) = '\xff' and ended.output = chosen.reference)
        or exists (select 1 from steps
            where octet_length(steps.output) = 88 and substr(steps.output, 1, 1) = '\xff' and steps.output = chosen.reference)
        or exists (select 1 from inbox
            where octet_length(inbox.payload) = 88 and substr(inbox.payload, 1, 1) = '\xff' and inbox.payload = chosen.reference)
        or exists (select 1 from published
            where octet_length(published.payload) = 88 and substr(published.payload, 1, 1) = '\xff' and published.payload = chosen.reference)
        as is_used
    from chosen
),
judged as materialized (
    select looked.*, looked.doomed or not looked.is_used and coalesce(looked.unused_since <= $1 - $2, false) as is_doomed
    from looked
)
update payloads set
    doomed = judged.is_doomed,
    -- What was given up is found again until it is forgotten.
    looked_at = case when judged.is_doomed then payloads.looked_at else $1 end,
    unused_since = case when judged.is_used then null else coalesce(payloads.unused_since, $1) end
from judged where payloads.payload_id = judged.payload_id
returning payloads.payload_id, payloads.doomed
