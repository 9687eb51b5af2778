-- How many bytes a workflow remembers. The lengths are known without reading what they are of.
select coalesce(sum(coalesce(octet_length(output), 0) + coalesce(octet_length(error), 0)), 0) from steps where run_id = ?1
