-- Notes which run goes on in the place of another.
insert into continued (run_id, next) values (?1, ?2)
