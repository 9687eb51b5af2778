-- Begins to note what grows while a build runs.
insert into build_progress (run_id) values (?1)
