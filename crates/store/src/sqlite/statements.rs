//! The SQL of this store: one statement in each file of `sql/`, and all of them in one list.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("../../sql/", $file));)*

        /// Every statement of this store, with the name of its file, so that a test can prepare them all.
        pub const SQL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

statements! {
    CREATE_SCHEMA_MIGRATIONS = "create_schema_migrations.sqlite.sql";
    READ_SCHEMA_VERSION = "read_schema_version.sqlite.sql";
    INSERT_SCHEMA_MIGRATION = "insert_schema_migration.sqlite.sql";
    CHECK_WRITABLE = "check_writable.sqlite.sql";
    INSERT_SECRET = "insert_secret.sqlite.sql";
    READ_SECRET = "read_secret.sqlite.sql";
    INSERT_QUEUE = "insert_queue.sqlite.sql";
    INSERT_LANE = "insert_lane.sqlite.sql";
    READ_LANE = "read_lane.sqlite.sql";
    LIST_LANES = "list_lanes.sqlite.sql";
    LIST_QUEUES = "list_queues.sqlite.sql";
    READ_QUEUE = "read_queue.sqlite.sql";
    UPDATE_QUEUE = "update_queue.sqlite.sql";
    UPDATE_RATE = "update_rate.sqlite.sql";
    READ_DEPTH = "read_depth.sqlite.sql";
    READ_OLDEST_DUE = "read_oldest_due.sqlite.sql";
    TAKE_RUN_NUMBERS = "take_run_numbers.sqlite.sql";
    READ_IDEMPOTENT_RUN = "read_idempotent_run.sqlite.sql";
    READ_LANE_HEAD = "read_lane_head.sqlite.sql";
    READ_KEY_TAIL = "read_key_tail.sqlite.sql";
    INSERT_RUN = "insert_run.sqlite.sql";
    INSERT_LIVE = "insert_live.sqlite.sql";
    READ_CLAIM_QUEUE = "read_claim_queue.sqlite.sql";
    PROMOTE_LIVE = "promote_live.sqlite.sql";
    READ_CANDIDATES = "read_candidates.sqlite.sql";
    READ_AFFINITY = "read_affinity.sqlite.sql";
    COUNT_KEY_HELD = "count_key_held.sqlite.sql";
    READ_WORKER_ROOM = "read_worker_room.sqlite.sql";
    BLOCK_LIVE = "block_live.sqlite.sql";
    CLAIM_LIVE = "claim_live.sqlite.sql";
    READ_CLAIMED_RUN = "read_claimed_run.sqlite.sql";
    LIST_CLAIMED = "list_claimed.sqlite.sql";
    READ_LANE_READY = "read_lane_ready.sqlite.sql";
    READ_NEXT_DUE_AFTER = "read_next_due_after.sqlite.sql";
    READ_LIVE = "read_live.sqlite.sql";
    READ_ENDED_STATE = "read_ended_state.sqlite.sql";
    READ_LEASE_END = "read_lease_end.sqlite.sql";
    COMPLETE_LIVE = "complete_live.sqlite.sql";
    DELETE_LIVE = "delete_live.sqlite.sql";
    INSERT_ENDED = "insert_ended.sqlite.sql";
    INSERT_ATTEMPT = "insert_attempt.sqlite.sql";
    RETURN_LIVE = "return_live.sqlite.sql";
    KEEP_LIVE = "keep_live.sqlite.sql";
    COUNT_WORKER = "count_worker.sqlite.sql";
    REMEMBER_AFFINITY = "remember_affinity.sqlite.sql";
    UNBLOCK_KEY = "unblock_key.sqlite.sql";
    LIST_BLOCKED_KEYS = "list_blocked_keys.sqlite.sql";
    LOSE_WORKERS = "lose_workers.sqlite.sql";
    LIST_ORPHANS = "list_orphans.sqlite.sql";
    LIST_OVERDUE = "list_overdue.sqlite.sql";
    READ_REGISTERED = "read_registered.sqlite.sql";
    INSERT_WORKER = "insert_worker.sqlite.sql";
    INSERT_WORKER_LIVE = "insert_worker_live.sqlite.sql";
    RENEW_WORKERS = "renew_workers.sqlite.sql";
    READ_WORKER_STATUS = "read_worker_status.sqlite.sql";
    READ_HELD_STATE = "read_held_state.sqlite.sql";
    LIST_CANCELLING = "list_cancelling.sqlite.sql";
    LIST_HELD = "list_held.sqlite.sql";
    UPDATE_WORKER_STATUS = "update_worker_status.sqlite.sql";
    READ_WORKER = "read_worker.sqlite.sql";
    LIST_STRAYS = "list_strays.sqlite.sql";
    LIST_WORKERS = "list_workers.sqlite.sql";
    COUNT_WORKERS = "count_workers.sqlite.sql";
    READ_RUN = "read_run.sqlite.sql";
    READ_PAYLOADS = "read_payloads.sqlite.sql";
    FIND_RUNS = "find_runs.sqlite.sql";
    FIND_RUNS_OF_LANE = "find_runs_of_lane.sqlite.sql";
    FIND_WAITING_RUNS = "find_waiting_runs.sqlite.sql";
    FIND_HELD_RUNS = "find_held_runs.sqlite.sql";
    FIND_RUNS_ENDED_BADLY = "find_runs_ended_badly.sqlite.sql";
    LIST_ATTEMPTS = "list_attempts.sqlite.sql";
    READ_POSITION = "read_position.sqlite.sql";
    INSERT_KEY = "insert_key.sqlite.sql";
    READ_KEY = "read_key.sqlite.sql";
    LIST_KEYS = "list_keys.sqlite.sql";
    REVOKE_KEY = "revoke_key.sqlite.sql";
    INSERT_AUDIT = "insert_audit.sqlite.sql";
    LIST_AUDIT = "list_audit.sqlite.sql";
    LIST_RUNS_TO_DELETE = "list_runs_to_delete.sqlite.sql";
    DELETE_RUN = "delete_run.sqlite.sql";
    DELETE_ENDED = "delete_ended.sqlite.sql";
    DELETE_AFFINITY = "delete_affinity.sqlite.sql";
    DELETE_ATTEMPTS = "delete_attempts.sqlite.sql";
    DELETE_WORKER_LIVE = "delete_worker_live.sqlite.sql";
    DELETE_WORKER = "delete_worker.sqlite.sql";
    DELETE_AUDIT = "delete_audit.sqlite.sql";
}
