-- Notes that the relatives of a run are to hear of its end.
insert into outbox (run_id, parent, parent_position, has_children) values (?1, ?2, ?3, ?4)
