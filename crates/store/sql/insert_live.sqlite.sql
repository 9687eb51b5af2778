-- Puts a submitted run in its line.
insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at, key, affinity, size)
values (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
