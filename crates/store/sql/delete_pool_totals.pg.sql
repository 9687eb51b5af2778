-- Forgets the sums of a pool.
delete from pool_totals where pool_no = $1::bigint
