-- How many leases of a run have ended.
select (select count(*) from attempts where run_id = $1::uuid)
    + (select count(*) from ended where run_id = $1 and lease_end is not null)
