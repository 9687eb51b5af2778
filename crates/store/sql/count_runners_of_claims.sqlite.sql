-- Counts the runners that these claims have: a list of numbers, as JSON.
select claim_no, count(*) as runners from runners where claim_no in (select value from json_each(?1)) group by claim_no
