-- Moves a webhook on to another position, unless somebody was faster or has changed it.
update webhooks set position = ?4, waiting = waiting + ?5, missed = ?6
where webhook_id = ?1 and revision = ?2 and position = ?3 and state = 1
