-- Whether runs of the lane are workflows: somebody has started one there as such, or a worker of workflows serves it.
alter table lanes add column is_workflow boolean not null default false;
update lanes set is_workflow = true
where lane_id in (select runs.lane_id from runs where runs.run_id in (select steps.run_id from steps));
