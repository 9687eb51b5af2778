-- How many lines the lease that wrote last has added, by its own count: lines that come again after a lost answer are known by it.
alter table build_progress add column log_epoch integer;
alter table build_progress add column log_taken bigint not null default 0;
