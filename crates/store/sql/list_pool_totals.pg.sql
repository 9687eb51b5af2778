-- Lists the sums of a pool.
select what, much from pool_totals where pool_no = $1::bigint order by what
