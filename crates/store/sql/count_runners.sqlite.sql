-- Counts the runners of a pool by state.
select state, count(*) as runners from runners where pool_no = ?1 group by state
