-- Has the database itself give up, as soon as this side does, a connection over which nothing is acknowledged any more: the locks
-- of its transaction would stand in everybody's way until then. On a local socket nothing changes.
select set_config(name, case name when 'tcp_user_timeout' then $1::text when 'tcp_keepalives_count' then '2' else $2::text end, false)
from pg_settings
where name in ('tcp_user_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count')
