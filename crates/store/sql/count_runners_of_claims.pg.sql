-- Counts the runners that these claims have.
select claim_no, count(*) as runners from runners where claim_no = any($1::bigint[]) group by claim_no
