-- An epoch has a mark of its claim in its upper half, so that no restore makes an old lease valid.
alter table live alter column epoch type bigint;
alter table ended alter column epoch type bigint;
alter table attempts alter column epoch type bigint;
alter table artifacts alter column epoch type bigint;
alter table machines alter column epoch type bigint;
alter table build_progress alter column log_epoch type bigint;
alter table steps alter column epoch type bigint;
alter table step_attempts alter column epoch type bigint;

-- Which numbered claims of a worker were answered, by whichever server: the largest number, and a bit for it and each of the
-- 62 before it. What lies further behind counts as answered (baton_core::answered).
alter table worker_live add column answered_no bigint not null default 0;
alter table worker_live add column answered_bits bigint not null default 0;

-- 1 when a worker asked again for the answer that brought it this run. Then the run does not go back because nobody heard the first.
alter table live add column told smallint not null default 0;

create function is_answered(answered_no bigint, answered_bits bigint, number bigint) returns boolean
    language sql immutable parallel safe
    as 'select number > 0 and number <= answered_no
        and (answered_no - number > 62 or (answered_bits >> least(answered_no - number, 62)::integer) & 1 = 1)';

create function answered_with(answered_no bigint, answered_bits bigint, number bigint) returns bigint
    language sql immutable parallel safe
    as 'select case
        when number <= 0 or answered_no - number > 62 then answered_bits
        when number - answered_no > 62 then 1
        when number > answered_no then (answered_bits << (number - answered_no)::integer) | 1
        else answered_bits | (1::bigint << (answered_no - number)::integer)
    end';
