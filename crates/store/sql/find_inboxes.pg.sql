-- The numbers of runs' last messages, of those with a key, and of the requests to cancel.
select given.run_id, given.key,
    (select inbox.number from inbox where inbox.run_id = given.run_id order by inbox.number desc limit 1) as last,
    (select inbox.number from inbox where inbox.run_id = given.run_id and inbox.key = given.key and inbox.key is not null limit 1) as with_key,
    (select inbox.number from inbox where inbox.run_id = given.run_id and inbox.kind = 2 limit 1) as cancel
from unnest($1::uuid[], $2::text[]) as given(run_id, key)
