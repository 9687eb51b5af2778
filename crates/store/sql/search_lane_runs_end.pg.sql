-- The end of search_lane_runs: the newest of all lanes.
) as found
order by found.run_id desc limit $10
