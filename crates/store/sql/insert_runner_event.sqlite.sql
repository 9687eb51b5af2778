-- Keeps a move of a runner.
insert into runner_events (at, pool_no, runner_id, claim_no, was, became, cause, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
