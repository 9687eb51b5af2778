-- One table: a job is a row that changes its state twice and stays.
with picked as (
    select id from wide where state = 0 order by id limit 100 for update skip locked
), claimed as (
    update wide set state = 1, epoch = epoch + 1, worker = :client_id, claimed_at = now() where id in (select id from picked) returning id
)
select coalesce(string_agg(id::text, ','), '0') as ids from claimed
\gset
update wide set state = 2, ended_at = now() where id = any('{:ids}'::bigint[]) and state = 1;
