-- The machine of a lease.
select otp_used_at, ready_at, seen_at, progress from machines where run_id = $1::uuid and epoch = $2::bigint
