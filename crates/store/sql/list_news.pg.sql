-- Messages beyond those seen, at most $3 of each run.
select given.run_id, news.number, news.kind, news.name, news.payload, news.state, news.error, news.position, news.at
from unnest($1::uuid[], $2::bigint[]) as given(run_id, seen)
cross join lateral (
    select * from inbox where inbox.run_id = given.run_id and inbox.number > given.seen order by inbox.number limit $3::bigint
) news
order by given.run_id, news.number
