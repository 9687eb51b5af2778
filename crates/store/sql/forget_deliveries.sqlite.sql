-- Forgets deliveries that ended in this state: long ago, or before so many others of their webhook.
delete from webhook_deliveries where (webhook_id, delivery_id) in (
    select webhook_id, delivery_id from (
        select webhook_id, delivery_id, ended_at,
            row_number() over (partition by webhook_id order by ended_at desc, delivery_id desc) as place
        from webhook_deliveries where state = ?2
    )
    where place > ?4 or ended_at < ?1 - ?3
    limit ?5
)
