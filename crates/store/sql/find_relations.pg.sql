-- What runs have to do with others.
select given.run_id,
    (select relatives.parent from relatives where relatives.run_id = given.run_id limit 1) as parent,
    (select continued.next from continued where continued.run_id = given.run_id limit 1) as next,
    (select 1 from inbox where inbox.run_id = given.run_id and inbox.kind = 2 limit 1) is not null as cancel_requested
from unnest($1::uuid[]) as given(run_id)
