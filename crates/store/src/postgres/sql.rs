//! Every statement, one file each.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("../../sql/", $file));)*

        /// Name and text of every statement, so that a test can prepare them all.
        pub const SQL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

/// What runs all the time, and is prepared on every connection.
pub(super) const OFTEN: [&str; 10] = [
    SUBMIT_RUNS,
    CLAIM_AT_ONCE,
    OPEN_CLAIM,
    PICK_RUNS,
    CLAIM_RUNS,
    COMPLETE_RUNS,
    START_RUNS,
    RENEW_WORKERS,
    WRITE_STEPS,
    READ_RUNS,
];

statements! {
    NOTE_PAYLOAD = "note_payload.pg.sql";
    TOUCH_PAYLOAD = "touch_payload.pg.sql";
    LOOK_AT_PAYLOADS = "look_at_payloads.pg.sql";
    FORGET_PAYLOADS = "forget_payloads.pg.sql";
    ADD_ARTIFACT = "add_artifact.pg.sql";
    ADD_ATTEMPTS = "add_attempts.pg.sql";
    ADD_AUDIT = "add_audit.pg.sql";
    ADD_BUILD = "add_build.pg.sql";
    ADD_CHILD_MESSAGES = "add_child_messages.pg.sql";
    ADD_KEY = "add_key.pg.sql";
    ADD_LANES = "add_lanes.pg.sql";
    ADD_LOG = "add_log.pg.sql";
    ADD_LOG_CHUNKS = "add_log_chunks.pg.sql";
    ADD_MEASUREMENT = "add_measurement.pg.sql";
    ADD_MESSAGES = "add_messages.pg.sql";
    ADD_MIGRATION = "add_migration.pg.sql";
    ADD_QUEUES = "add_queues.pg.sql";
    ADD_STEP_ATTEMPTS = "add_step_attempts.pg.sql";
    BLOCK_RUNS = "block_runs.pg.sql";
    CANCEL_HELD_RUNS = "cancel_held_runs.pg.sql";
    CHECK_LEASES = "check_leases.pg.sql";
    CLAIM_AT_ONCE = "claim_at_once.pg.sql";
    CLAIM_RUNS = "claim_runs.pg.sql";
    CLOSE_LOGS = "close_logs.pg.sql";
    COMPLETE_RUNS = "complete_runs.pg.sql";
    CONTINUE_RUN = "continue_run.pg.sql";
    COPY_STEPS = "copy_steps.pg.sql";
    LIST_UNTAKEN_SIGNALS = "list_untaken_signals.pg.sql";
    LIST_WAITS = "list_waits.pg.sql";
    LIST_WORKFLOW_LANES = "list_workflow_lanes.pg.sql";
    MARK_WORKFLOW_LANES = "mark_workflow_lanes.pg.sql";
    READ_UNDONE = "read_undone.pg.sql";
    SET_REMEMBERS = "set_remembers.pg.sql";
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
    DELETE_SETTINGS = "delete_settings.pg.sql";
    DELETE_WORKERS = "delete_workers.pg.sql";
    DOOM_ARTIFACTS = "doom_artifacts.pg.sql";
    END_RUNS = "end_runs.pg.sql";
    FIND_BLOCKED_KEYS = "find_blocked_keys.pg.sql";
    FIND_CONTINUED = "find_continued.pg.sql";
    FIND_INBOXES = "find_inboxes.pg.sql";
    FIND_INSTANCE = "find_instance.pg.sql";
    FIND_LANES = "find_lanes.pg.sql";
    FIND_PAST = "find_past.pg.sql";
    FIND_RELATIONS = "find_relations.pg.sql";
    FIND_STEPS = "find_steps.pg.sql";
    FIND_SUBMITTED = "find_submitted.pg.sql";
    FIND_SUBMITTED_RUNS = "find_submitted_runs.pg.sql";
    FIND_TAKEN = "find_taken.pg.sql";
    FIND_TURNS = "find_turns.pg.sql";
    FORGET_ARTIFACTS = "forget_artifacts.pg.sql";
    FORGET_PARENTS = "forget_parents.pg.sql";
    HAS_EXPIRED = "has_expired.pg.sql";
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
    LIST_CHILDREN = "list_children.pg.sql";
    LIST_CLAIMED = "list_claimed.pg.sql";
    LIST_DEADLINES = "list_deadlines.pg.sql";
    LIST_ENDED_RUNS = "list_ended_runs.pg.sql";
    LIST_JOURNALS = "list_journals.pg.sql";
    LIST_KEYS = "list_keys.pg.sql";
    LIST_LANES = "list_lanes.pg.sql";
    LIST_LIVE_RUNS = "list_live_runs.pg.sql";
    LIST_MEASUREMENTS = "list_measurements.pg.sql";
    LIST_NEWS = "list_news.pg.sql";
    LIST_OLD_BUILDS = "list_old_builds.pg.sql";
    LIST_OUTBOX = "list_outbox.pg.sql";
    LIST_QUEUES = "list_queues.pg.sql";
    LIST_RUNS = "list_runs.pg.sql";
    LIST_SETTINGS = "list_settings.sql";
    LIST_STEPS = "list_steps.pg.sql";
    LIST_STEP_ATTEMPTS = "list_step_attempts.pg.sql";
    LIST_STRAYS = "list_strays.pg.sql";
    LIST_STUCK_BUILDS = "list_stuck_builds.pg.sql";
    LIST_WORKERS = "list_workers.pg.sql";
    LOCK_KEYS = "lock_keys.pg.sql";
    LOCK_LOG = "lock_log.pg.sql";
    LOCK_MIGRATIONS = "lock_migrations.pg.sql";
    LOCK_OUTBOX = "lock_outbox.pg.sql";
    LOCK_RATE = "lock_rate.pg.sql";
    LOCK_SETTINGS = "lock_settings.pg.sql";
    LOOK_LANES = "look_lanes.pg.sql";
    LOSE_WORKERS = "lose_workers.pg.sql";
    MOVE_MESSAGES = "move_messages.pg.sql";
    NOTIFY_SERVERS = "notify_servers.pg.sql";
    OPEN_CLAIM = "open_claim.pg.sql";
    PEEK_RUNS = "peek_runs.pg.sql";
    PICK_FREE_RUNS = "pick_free_runs.pg.sql";
    PICK_RUNS = "pick_runs.pg.sql";
    READ_ARTIFACT = "read_artifact.pg.sql";
    READ_BUILDER = "read_builder.pg.sql";
    READ_BUILDER_OF_WORKER = "read_builder_of_worker.pg.sql";
    READ_FITNESS = "read_fitness.pg.sql";
    READ_KEY = "read_key.pg.sql";
    READ_LOG = "read_log.pg.sql";
    READ_MACHINE = "read_machine.pg.sql";
    READ_MIGRATIONS = "read_migrations.sql";
    READ_NOW = "read_now.pg.sql";
    READ_POSITION = "read_position.pg.sql";
    READ_PUBLISHED = "read_published.pg.sql";
    READ_RUNS = "read_runs.pg.sql";
    READ_STATUSES = "read_statuses.pg.sql";
    READ_WORKER = "read_worker.pg.sql";
    REGISTER_WORKER = "register_worker.pg.sql";
    RENEW_WORKERS = "renew_workers.pg.sql";
    RETURN_RUNS = "return_runs.pg.sql";
    REVOKE_KEY = "revoke_key.pg.sql";
    SEE_MACHINE = "see_machine.pg.sql";
    SETTLE_OUTBOX = "settle_outbox.pg.sql";
    SET_BUILDER = "set_builder.pg.sql";
    SET_DEADLINES = "set_deadlines.pg.sql";
    SET_LOG = "set_log.pg.sql";
    SET_PARENTS = "set_parents.pg.sql";
    SET_PUBLISHED = "set_published.pg.sql";
    SET_QUEUE = "set_queue.pg.sql";
    SET_SETTINGS = "set_settings.pg.sql";
    SET_STEPS = "set_steps.pg.sql";
    SET_WORKER_OFFLINE = "set_worker_offline.pg.sql";
    SET_WORKER_STATUS = "set_worker_status.pg.sql";
    SHOW_TOKEN = "show_token.pg.sql";
    START_RUNS = "start_runs.pg.sql";
    STORE_ARTIFACT = "store_artifact.pg.sql";
    SUBMIT_RUNS = "submit_runs.pg.sql";
    SUM_ARTIFACT_BYTES = "sum_artifact_bytes.pg.sql";
    SUM_JOURNALS = "sum_journals.pg.sql";
    TAKE_DEADLINES = "take_deadlines.pg.sql";
    TAKE_RATE = "take_rate.pg.sql";
    UNBLOCK_KEYS = "unblock_keys.pg.sql";
    USE_OTP = "use_otp.pg.sql";
    WAKE_RUNS = "wake_runs.pg.sql";
    WRITE_STEPS = "write_steps.pg.sql";
    ADD_NAMESPACE = "add_namespace.pg.sql";
    READ_NAMESPACE = "read_namespace.pg.sql";
    LIST_NAMESPACES = "list_namespaces.pg.sql";
    CHANGE_NAMESPACE = "change_namespace.pg.sql";
    LOCK_NAMESPACE = "lock_namespace.pg.sql";
    FIND_WORKER_OF_INSTANCE = "find_worker_of_instance.sql";
    ADD_SCHEDULE = "add_schedule.pg.sql";
    READ_SCHEDULE = "read_schedule.pg.sql";
    LIST_SCHEDULES = "list_schedules.pg.sql";
    COUNT_SCHEDULES = "count_schedules.pg.sql";
    CHANGE_SCHEDULE = "change_schedule.pg.sql";
    DELETE_SCHEDULE = "delete_schedule.pg.sql";
    DUE_SCHEDULES = "due_schedules.pg.sql";
    HOLD_SCHEDULE = "hold_schedule.pg.sql";
    SET_FIRED = "set_fired.pg.sql";
    COUNT_FIRED = "count_fired.pg.sql";
    ADD_FIRES = "add_fires.pg.sql";
    ADD_FIRE_DEADLINES = "add_fire_deadlines.pg.sql";
    LIST_FIRES = "list_fires.pg.sql";
    DELETE_FIRES = "delete_fires.pg.sql";
    // ---- pools
    ADD_POOL = "add_pool.pg.sql";
    READ_POOL = "read_pool.pg.sql";
    READ_POOL_OF_NUMBER = "read_pool_of_number.pg.sql";
    LOCK_POOL = "lock_pool.pg.sql";
    LIST_POOLS = "list_pools.pg.sql";
    CHANGE_POOL = "change_pool.pg.sql";
    MARK_POOL_DELETED = "mark_pool_deleted.pg.sql";
    SET_POOL_BACKOFF = "set_pool_backoff.pg.sql";
    SET_POOL_ERROR = "set_pool_error.pg.sql";
    OPEN_POOL_CLAIM = "open_pool_claim.pg.sql";
    READ_POOL_CLAIM = "read_pool_claim.pg.sql";
    HOLD_POOL_CLAIM = "hold_pool_claim.pg.sql";
    LIST_POOL_CLAIMS = "list_pool_claims.pg.sql";
    LIST_WAITING_CLAIMS = "list_waiting_claims.pg.sql";
    COUNT_RUNNERS_OF_CLAIMS = "count_runners_of_claims.pg.sql";
    LIST_WAITING_POOLS = "list_waiting_pools.pg.sql";
    LIST_OVERDUE_CLAIMS = "list_overdue_claims.pg.sql";
    SET_POOL_CLAIM = "set_pool_claim.pg.sql";
    LIST_CLAIM_WAITS = "list_claim_waits.pg.sql";
    ADD_RUNNERS = "add_runners.pg.sql";
    HOLD_RUNNERS = "hold_runners.pg.sql";
    HOLD_FREE_RUNNERS = "hold_free_runners.pg.sql";
    READ_RUNNER = "read_runner.pg.sql";
    HOLD_CLAIM_RUNNERS = "hold_claim_runners.pg.sql";
    HOLD_ORDER_RUNNERS = "hold_order_runners.pg.sql";
    LIST_TAKEN_RUNNERS = "list_taken_runners.pg.sql";
    LIST_IDLE_RUNNERS = "list_idle_runners.pg.sql";
    LIST_OVERDUE_RUNNERS = "list_overdue_runners.pg.sql";
    LIST_BARREN_CLAIMS = "list_barren_claims.pg.sql";
    READ_ORDER = "read_order.pg.sql";
    LIST_STRANDED_RUNNERS = "list_stranded_runners.pg.sql";
    HOLD_WAITING_CLAIMS = "hold_waiting_claims.pg.sql";
    LIST_SILENT_RUNNERS = "list_silent_runners.pg.sql";
    LIST_RUNNERS = "list_runners.pg.sql";
    READ_RUNNER_OF_TOKEN = "read_runner_of_token.pg.sql";
    COUNT_RUNNERS = "count_runners.pg.sql";
    BEAT_RUNNERS = "beat_runners.pg.sql";
    SET_RUNNERS = "set_runners.pg.sql";
    DUE_ENDINGS = "due_endings.pg.sql";
    ADD_ORDER = "add_order.pg.sql";
    HOLD_ORDER = "hold_order.pg.sql";
    CLOSE_ORDER = "close_order.pg.sql";
    CLOSE_ORDERS = "close_orders.pg.sql";
    DUE_ORDERS = "due_orders.pg.sql";
    ADD_RUNNER_EVENTS = "add_runner_events.pg.sql";
    LIST_RUNNER_EVENTS = "list_runner_events.pg.sql";
    ADD_POOL_TOTALS = "add_pool_totals.pg.sql";
    LIST_POOL_TOTALS = "list_pool_totals.pg.sql";
    LOCK_POOL_OF_ORDER = "lock_pool_of_order.pg.sql";
    FREEZE_VIEW = "freeze_view.pg.sql";
    DELETE_RUNNERS = "delete_runners.pg.sql";
    DELETE_POOL_CLAIMS = "delete_pool_claims.pg.sql";
    DELETE_RUNNER_EVENTS = "delete_runner_events.pg.sql";
    DELETE_RUNNER_ORDERS = "delete_runner_orders.pg.sql";
    DELETE_POOLS = "delete_pools.pg.sql";
    DELETE_POOL_TOTALS = "delete_pool_totals.pg.sql";
}
