-- How many bytes workflows remember. The lengths are known without reading what they are of.
select given.run_id, remembered.bytes
from unnest($1::uuid[]) as given(run_id)
cross join lateral (
    select coalesce(sum(coalesce(octet_length(output), 0) + coalesce(octet_length(error), 0)), 0)::bigint as bytes
    from steps where steps.run_id = given.run_id
) remembered
