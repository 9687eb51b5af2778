-- Writes down what came of an attempt, unless another has begun since.
update webhook_deliveries set state = ?5, due_at = ?1 + ?6, log = ?7, tries = tries - ?8,
    ended_at = case when ?5 > 1 then ?1 end
where webhook_id = ?2 and delivery_id = ?3 and attempt = ?4 and state = 1
