-- Whether somebody began to undo a workflow: it has a step (kind 0) that is a compensation, by its name.
select exists (select 1 from steps where run_id = $1::uuid and kind = 0 and name like 'undo %') as is_undone
