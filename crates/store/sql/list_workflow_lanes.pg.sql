-- Lists the lanes whose runs are workflows.
select lane_id from lanes where is_workflow
