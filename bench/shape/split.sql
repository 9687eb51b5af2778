-- Three tables: what was submitted stays, what lives is narrow and goes away, how it ended is written once.
with picked as (
    select id from live where place = 0 order by id limit 100 for update skip locked
), claimed as (
    update live set place = 3, epoch = epoch + 1, worker = :client_id, claimed_at = now() where id in (select id from picked) returning id
)
select coalesce(string_agg(id::text, ','), '0') as ids from claimed
\gset
with gone as (
    delete from live where id = any('{:ids}'::bigint[]) and place = 3 returning id, epoch, worker, claimed_at
)
insert into ended (id, epoch, worker, claimed_at, ended_at) select id, epoch, worker, claimed_at, now() from gone;
