-- Whether runs of the lane are workflows: somebody has started one there as such, or a worker of workflows serves it.
alter table lanes add column is_workflow integer not null default 0;
update lanes set is_workflow = 1
where lane_id in (select runs.lane_id from runs where runs.run_id in (select steps.run_id from steps));
