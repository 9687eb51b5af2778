-- Whether some row refers to a payload.
select exists (select 1 from runs indexed by runs_by_reference
        where length(input) = 88 and substr(input, 1, 1) = x'ff' and input = ?1)
    or exists (select 1 from ended indexed by ended_by_reference
        where length(output) = 88 and substr(output, 1, 1) = x'ff' and output = ?1)
    or exists (select 1 from steps indexed by steps_by_reference
        where length(output) = 88 and substr(output, 1, 1) = x'ff' and output = ?1)
    or exists (select 1 from inbox indexed by inbox_by_reference
        where length(payload) = 88 and substr(payload, 1, 1) = x'ff' and payload = ?1)
    or exists (select 1 from published indexed by published_by_reference
        where length(payload) = 88 and substr(payload, 1, 1) = x'ff' and payload = ?1)
