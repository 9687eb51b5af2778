-- Adds to a sum of a pool.
insert into pool_totals (pool_no, what, much) values (?1, ?2, ?3)
on conflict (pool_no, what) do update set much = pool_totals.much + excluded.much
