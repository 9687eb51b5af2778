-- Looks at payloads whose time has come: those that no row refers to, now and for so long ($2) before, are given up. Two looks, because
-- a transaction that takes a reference over from one row to another may be under way at the first.
with chosen as materialized (
    select payload_id, reference, unused_since, doomed
    from payloads where look_at <= $1::bigint
    order by look_at, payload_id limit $3::bigint
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
    select looked.*, looked.doomed or not looked.is_used and coalesce(looked.unused_since <= $1 - $2::bigint, false) as is_doomed
    from looked
)
update payloads set
    doomed = judged.is_doomed,
    look_at = case when judged.is_doomed then payloads.look_at else $1 + $2 end,
    unused_since = case when judged.is_used then null else coalesce(payloads.unused_since, $1) end
from judged where payloads.payload_id = judged.payload_id
returning payloads.payload_id, payloads.doomed
