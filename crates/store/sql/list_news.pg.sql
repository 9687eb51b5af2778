-- Messages beyond those seen: of each run at most $3, and none before which there are $4 bytes of payloads.
select given.run_id, news.number, news.kind, news.name, news.payload, news.state, news.error, news.position, news.at
from unnest($1::uuid[], $2::bigint[]) as given(run_id, seen)
cross join lateral (
    select few.* from (
        select inbox.*, sum(octet_length(inbox.payload)) over (
            order by inbox.number rows between unbounded preceding and 1 preceding
        ) as bytes_before
        from inbox where inbox.run_id = given.run_id and inbox.number > given.seen order by inbox.number limit $3::bigint
    ) few
    where coalesce(few.bytes_before, 0) < $4::bigint
) news
order by given.run_id, news.number
