//! Every statement, one file each.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("../../sql/", $file));)*

        /// Name and text of every statement, so that a test can prepare them all.
        pub const SQL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

/// What runs all the time, and is prepared on every connection.
pub(super) const OFTEN: [&str; 8] =
    [SUBMIT_RUNS, CLAIM_AT_ONCE, OPEN_CLAIM, PICK_RUNS, CLAIM_RUNS, COMPLETE_RUNS, START_RUNS, RENEW_WORKERS];

statements! {
    ADD_ARTIFACT = "add_artifact.pg.sql";
    ADD_ATTEMPTS = "add_attempts.pg.sql";
    ADD_AUDIT = "add_audit.pg.sql";
    ADD_BUILD = "add_build.pg.sql";
    ADD_KEY = "add_key.pg.sql";
    ADD_LANES = "add_lanes.pg.sql";
    ADD_LOG = "add_log.pg.sql";
    ADD_LOG_CHUNKS = "add_log_chunks.pg.sql";
    ADD_MEASUREMENT = "add_measurement.pg.sql";
    ADD_MIGRATION = "add_migration.pg.sql";
    ADD_QUEUES = "add_queues.pg.sql";
    BLOCK_RUNS = "block_runs.pg.sql";
    CANCEL_HELD_RUNS = "cancel_held_runs.pg.sql";
    CHECK_LEASES = "check_leases.pg.sql";
    CLAIM_AT_ONCE = "claim_at_once.pg.sql";
    CLAIM_RUNS = "claim_runs.pg.sql";
    CLOSE_LOGS = "close_logs.pg.sql";
    COMPLETE_RUNS = "complete_runs.pg.sql";
    COUNT_BUILDER = "count_builder.pg.sql";
    COUNT_BUILDS = "count_builds.pg.sql";
    COUNT_DEPTHS = "count_depths.pg.sql";
    COUNT_ENDED_BUILDS = "count_ended_builds.pg.sql";
    COUNT_ENDED_RUNS = "count_ended_runs.pg.sql";
    COUNT_KEYS = "count_keys.pg.sql";
    COUNT_LEASES = "count_leases.pg.sql";
    COUNT_LIVE_RUNS = "count_live_runs.pg.sql";
    COUNT_RUNS = "count_runs.pg.sql";
    COUNT_WORKERS = "count_workers.pg.sql";
    CREATE_MIGRATIONS = "create_migrations.pg.sql";
    DELETE_AFFINITY = "delete_affinity.pg.sql";
    DELETE_AUDIT = "delete_audit.pg.sql";
    DELETE_LOG_CHUNKS = "delete_log_chunks.pg.sql";
    DELETE_MEASUREMENTS = "delete_measurements.pg.sql";
    DELETE_RUNS = "delete_runs.pg.sql";
    DELETE_WORKERS = "delete_workers.pg.sql";
    DOOM_ARTIFACTS = "doom_artifacts.pg.sql";
    END_RUNS = "end_runs.pg.sql";
    FIND_BLOCKED_KEYS = "find_blocked_keys.pg.sql";
    FIND_INSTANCE = "find_instance.pg.sql";
    FIND_LANES = "find_lanes.pg.sql";
    FIND_PAST = "find_past.pg.sql";
    FIND_SUBMITTED = "find_submitted.pg.sql";
    FIND_TURNS = "find_turns.pg.sql";
    FORGET_ARTIFACTS = "forget_artifacts.pg.sql";
    HOLD_LOST_RUNS = "hold_lost_runs.pg.sql";
    HOLD_OVERDUE_RUNS = "hold_overdue_runs.pg.sql";
    HOLD_RUNS = "hold_runs.pg.sql";
    HOLD_WORKER_RUNS = "hold_worker_runs.pg.sql";
    KEEP_RESULTS = "keep_results.pg.sql";
    KEEP_SECRET = "keep_secret.pg.sql";
    LIST_ARTIFACTS = "list_artifacts.pg.sql";
    LIST_ATTEMPTS = "list_attempts.pg.sql";
    LIST_AUDIT = "list_audit.pg.sql";
    LIST_BUILDS = "list_builds.pg.sql";
    LIST_CLAIMED = "list_claimed.pg.sql";
    LIST_ENDED_RUNS = "list_ended_runs.pg.sql";
    LIST_KEYS = "list_keys.pg.sql";
    LIST_LANES = "list_lanes.pg.sql";
    LIST_LIVE_RUNS = "list_live_runs.pg.sql";
    LIST_MEASUREMENTS = "list_measurements.pg.sql";
    LIST_OLD_BUILDS = "list_old_builds.pg.sql";
    LIST_QUEUES = "list_queues.pg.sql";
    LIST_RUNS = "list_runs.pg.sql";
    LIST_STRAYS = "list_strays.pg.sql";
    LIST_STUCK_BUILDS = "list_stuck_builds.pg.sql";
    LIST_WORKERS = "list_workers.pg.sql";
    LOCK_KEYS = "lock_keys.pg.sql";
    LOCK_LOG = "lock_log.pg.sql";
    LOCK_MIGRATIONS = "lock_migrations.pg.sql";
    LOCK_RATE = "lock_rate.pg.sql";
    LOOK_LANES = "look_lanes.pg.sql";
    LOSE_WORKERS = "lose_workers.pg.sql";
    NOTIFY_LANES = "notify_lanes.pg.sql";
    OPEN_CLAIM = "open_claim.pg.sql";
    PEEK_RUNS = "peek_runs.pg.sql";
    PICK_FREE_RUNS = "pick_free_runs.pg.sql";
    PICK_RUNS = "pick_runs.pg.sql";
    READ_BUILDER = "read_builder.pg.sql";
    READ_BUILDER_OF_WORKER = "read_builder_of_worker.pg.sql";
    READ_FITNESS = "read_fitness.pg.sql";
    READ_KEY = "read_key.pg.sql";
    READ_LOG = "read_log.pg.sql";
    READ_MACHINE = "read_machine.pg.sql";
    READ_MIGRATIONS = "read_migrations.pg.sql";
    READ_NOW = "read_now.pg.sql";
    READ_POSITION = "read_position.pg.sql";
    READ_RUN = "read_run.pg.sql";
    READ_STATUSES = "read_statuses.pg.sql";
    READ_WORKER = "read_worker.pg.sql";
    REGISTER_WORKER = "register_worker.pg.sql";
    RENEW_WORKERS = "renew_workers.pg.sql";
    RETURN_RUNS = "return_runs.pg.sql";
    REVOKE_KEY = "revoke_key.pg.sql";
    SEE_MACHINE = "see_machine.pg.sql";
    SET_BUILDER = "set_builder.pg.sql";
    SET_LOG = "set_log.pg.sql";
    SET_QUEUE = "set_queue.pg.sql";
    SET_WORKER_OFFLINE = "set_worker_offline.pg.sql";
    SET_WORKER_STATUS = "set_worker_status.pg.sql";
    SHOW_TOKEN = "show_token.pg.sql";
    START_RUNS = "start_runs.pg.sql";
    STORE_ARTIFACT = "store_artifact.pg.sql";
    SUBMIT_RUNS = "submit_runs.pg.sql";
    SUM_ARTIFACT_BYTES = "sum_artifact_bytes.pg.sql";
    TAKE_RATE = "take_rate.pg.sql";
    UNBLOCK_KEYS = "unblock_keys.pg.sql";
    USE_OTP = "use_otp.pg.sql";
}
