-- An epoch has a mark of its claim in its upper half, so that no restore makes an old lease valid; the columns are wide enough.

-- Which numbered claims of a worker were answered: the largest number, and a bit for it and each of the 62 before it. What
-- lies further behind counts as answered (baton_core::answered).
alter table worker_live add column answered_no integer not null default 0;
alter table worker_live add column answered_bits integer not null default 0;

-- 1 when a worker asked again for the answer that brought it this run. Then the run does not go back because nobody heard the first.
alter table live add column told integer not null default 0;
