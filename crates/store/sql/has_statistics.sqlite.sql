-- Whether a block of statistics is still there.
select 1 from statistics where number = ?1
