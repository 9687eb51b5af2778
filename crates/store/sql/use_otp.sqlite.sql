-- Uses up the one-time password of a lease.
insert into machines (run_id, epoch, otp_used_at) values (?1, ?2, ?3)
on conflict (run_id, epoch) do update set otp_used_at = excluded.otp_used_at where machines.otp_used_at is null
