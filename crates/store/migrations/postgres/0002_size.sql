-- How large a run's input is, so that a claim of many large ones stops before it fills the memory.
alter table live add column size integer not null default 0;
