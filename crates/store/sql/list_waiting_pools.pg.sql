-- Lists the pools that claims wait for.
select distinct pool_no from pool_claims where state = 0 order by pool_no
