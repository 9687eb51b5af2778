//! Webhooks: who is told of events by calls, and what is delivered to them.

use baton_core::Millis;
use baton_core::webhooks::BACKLOG_MAX;
use baton_store::{
    ClaimedDelivery, DeliveryId, DeliveryRetention, DeliveryState, NewDelivery, NewWebhook, Page, ReplayAnswer,
    SettledAnswer, SettledDelivery, Webhook, WebhookAnswer, WebhookChange, WebhookId, WebhookMove, WebhookState,
};
use bytes::Bytes;

use crate::rig::{Rig, START, contract};

contract!(
    a_name_is_taken_once_in_each_namespace,
    there_are_only_so_many,
    a_change_is_made_to_what_was_seen,
    an_event_becomes_one_delivery_whoever_reads_it,
    a_webhook_that_is_paused_or_changed_is_not_moved,
    deliveries_are_taken_once_and_again_after_their_deadline,
    deliveries_are_taken_in_the_order_of_their_events,
    the_next_delivery_is_known,
    what_comes_of_an_attempt_is_written_down_once,
    an_attempt_that_is_given_back_does_not_count,
    a_receiver_that_asks_for_it_is_left_alone,
    a_receiver_that_is_gone_or_fails_for_days_is_disabled_once,
    dead_deliveries_are_replayed,
    a_full_backlog_takes_no_replays,
    deliveries_that_have_ended_are_forgotten,
    deleting_a_webhook_deletes_what_waits_for_it,
);

const LEASE_MS: Millis = 45_000;
const DAY_MS: Millis = 86_400_000;

fn new(name: &str, namespace: Option<&str>, number: u64) -> NewWebhook {
    NewWebhook {
        id: WebhookId::new(START, number << 48 | number),
        namespace: namespace.map(str::to_owned),
        name: name.into(),
        url: "https://example.org/".into(),
        filter: "{}".into(),
        secret: Bytes::from_static(b"sealed"),
        position: 10,
        created_by: "key_1".into(),
        namespace_max: 10,
        all_max: 100,
    }
}

async fn made(rig: &Rig, new: NewWebhook) -> Webhook {
    match rig.store.add_webhook(new).await.unwrap() {
        WebhookAnswer::Made(made) => made,
        other => panic!("{other:?}"),
    }
}

async fn seen(rig: &Rig, webhook: &Webhook) -> Webhook {
    rig.store.webhook(webhook.id).await.unwrap().unwrap()
}

fn delivery(event: i64) -> NewDelivery {
    NewDelivery {
        id: DeliveryId::new(START, event, 7),
        event,
        kind: "run.ended".into(),
        subject: Some(format!("run-{event}")),
        body: Bytes::from(format!("body {event}")),
    }
}

/// Moves a webhook on by so many events, each of which is for it.
async fn feed(rig: &Rig, webhook: &Webhook, count: i64) -> Webhook {
    let now = seen(rig, webhook).await;
    let deliveries = (1..=count).map(|step| delivery(now.position + step)).collect();
    let to = now.position + count;
    let moved =
        WebhookMove { webhook: now.id, revision: now.revision, from: now.position, to, deliveries, missed: now.missed };
    assert!(rig.store.move_webhook(moved).await.unwrap());
    seen(rig, webhook).await
}

async fn claim(rig: &Rig, webhook: &Webhook, room: usize) -> Vec<ClaimedDelivery> {
    rig.store.claim_deliveries(&[(webhook.id, room)], 100, LEASE_MS).await.unwrap().deliveries
}

fn settled(claimed: &ClaimedDelivery, state: DeliveryState) -> SettledDelivery {
    SettledDelivery {
        webhook: claimed.webhook,
        id: claimed.id,
        attempt: claimed.attempt,
        state,
        retry_ms: 5_000,
        is_given_back: false,
        log: format!("attempt {}", claimed.attempt),
        hold_ms: None,
        gone: None,
        disable_after_ms: 5 * DAY_MS,
    }
}

async fn a_name_is_taken_once_in_each_namespace(rig: Rig) {
    let first = made(&rig, new("ci", Some("a"), 1)).await;
    assert_eq!((first.state, first.position, first.revision, first.waiting), (WebhookState::Active, 10, 1, 0));
    assert_eq!((first.created_at, first.since), (rig.now(), rig.now()));
    let again = rig.store.add_webhook(new("ci", Some("a"), 2)).await.unwrap();
    assert_eq!(again, WebhookAnswer::Exists(first.clone()));
    let other = made(&rig, new("ci", Some("b"), 3)).await;
    let all = made(&rig, new("ci", None, 4)).await;
    let again = rig.store.add_webhook(new("ci", None, 5)).await.unwrap();
    assert_eq!(again, WebhookAnswer::Exists(all.clone()));
    let list = async |namespace: Option<&str>, after: Option<WebhookId>, limit| {
        let found = rig.store.webhooks(namespace, Page { after, limit }).await.unwrap();
        found.iter().map(|webhook| webhook.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, None, 10).await, [all.id, other.id, first.id]);
    assert_eq!(list(Some("a"), None, 10).await, [first.id]);
    assert_eq!(list(None, Some(all.id), 1).await, [other.id]);
    let rig = rig.reopen().await;
    assert_eq!(rig.store.live_webhooks().await.unwrap(), [first, other, all]);
}

async fn there_are_only_so_many(rig: Rig) {
    let limited = |name: &str, namespace: Option<&str>, number| NewWebhook {
        namespace_max: 2,
        all_max: 4,
        ..new(name, namespace, number)
    };
    made(&rig, limited("a", Some("a"), 1)).await;
    made(&rig, limited("b", Some("a"), 2)).await;
    let full = rig.store.add_webhook(limited("c", Some("a"), 3)).await.unwrap();
    assert_eq!(full, WebhookAnswer::Full);
    assert!(matches!(rig.store.add_webhook(limited("a", Some("a"), 4)).await.unwrap(), WebhookAnswer::Exists(_)));
    made(&rig, limited("a", None, 5)).await;
    made(&rig, limited("b", None, 6)).await;
    assert_eq!(rig.store.add_webhook(limited("c", None, 7)).await.unwrap(), WebhookAnswer::Full);
    assert_eq!(rig.store.add_webhook(limited("a", Some("b"), 8)).await.unwrap(), WebhookAnswer::Full, "of all");
}

async fn a_change_is_made_to_what_was_seen(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    rig.clock.advance(1_000);
    let change = WebhookChange {
        url: "https://example.net/".into(),
        secret: Bytes::from_static(b"new"),
        secret_before: Some(Bytes::from_static(b"sealed")),
        before_until: 99,
        ..WebhookChange::of(&webhook)
    };
    let changed = rig.store.change_webhook(webhook.id, 1, change.clone()).await.unwrap().unwrap();
    let before = (changed.secret_before.clone(), changed.before_until, changed.since);
    assert_eq!(
        (changed.url.as_str(), changed.secret.as_ref(), changed.revision),
        ("https://example.net/", &b"new"[..], 2)
    );
    assert_eq!(before, (Some(Bytes::from_static(b"sealed")), 99, webhook.since));
    assert_eq!(rig.store.change_webhook(webhook.id, 1, change).await.unwrap(), None, "somebody was faster");
    let again = WebhookChange {
        position: Some(50),
        is_new_filter: true,
        first: Some(delivery(50)),
        ..WebhookChange::of(&changed)
    };
    let begun = rig.store.change_webhook(webhook.id, 2, again).await.unwrap().unwrap();
    assert_eq!((begun.position, begun.since, begun.waiting), (50, rig.now(), 1));
    assert_eq!(claim(&rig, &webhook, 9).await[0].event, 50);
    assert_eq!(seen(&rig, &webhook).await, begun);
}

async fn an_event_becomes_one_delivery_whoever_reads_it(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    let mut moving = tokio::task::JoinSet::new();
    for (server, number) in rig.servers(4).await.into_iter().zip(0..) {
        let moved = WebhookMove {
            webhook: webhook.id,
            revision: 1,
            from: 10,
            to: 13,
            // Each server gives its own names.
            deliveries: (11..=13)
                .map(|event| NewDelivery { id: DeliveryId::new(START, event, number), ..delivery(event) })
                .collect(),
            missed: 2,
        };
        moving.spawn(async move { server.move_webhook(moved).await.unwrap() });
    }
    let moved = moving.join_all().await;
    assert_eq!(moved.iter().filter(|is_moved| **is_moved).count(), 1);
    let now = seen(&rig, &webhook).await;
    assert_eq!((now.position, now.waiting, now.missed, now.revision), (13, 3, 2, 1));
    let bodies: Vec<_> = claim(&rig, &webhook, 9).await.into_iter().map(|claimed| claimed.body).collect();
    assert_eq!(bodies, ["body 11", "body 12", "body 13"]);
}

async fn a_webhook_that_is_paused_or_changed_is_not_moved(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    let moved = |revision| WebhookMove {
        webhook: webhook.id,
        revision,
        from: 10,
        to: 11,
        deliveries: vec![delivery(11)],
        missed: 0,
    };
    let pause = WebhookChange { state: WebhookState::Paused, ..WebhookChange::of(&webhook) };
    let paused = rig.store.change_webhook(webhook.id, 1, pause).await.unwrap().unwrap();
    assert!(!rig.store.move_webhook(moved(1)).await.unwrap());
    assert!(!rig.store.move_webhook(moved(2)).await.unwrap());
    assert_eq!(rig.store.live_webhooks().await.unwrap(), []);
    assert_eq!(seen(&rig, &webhook).await, paused);
    assert_eq!(rig.store.deliveries(webhook.id, None, Page { after: None, limit: 9 }).await.unwrap(), []);
}

async fn deliveries_are_taken_once_and_again_after_their_deadline(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 10).await;
    let mut claiming = tokio::task::JoinSet::new();
    for server in rig.servers(4).await {
        let id = webhook.id;
        claiming.spawn(async move {
            let claimed = server.claim_deliveries(&[(id, 10)], 100, LEASE_MS).await.unwrap();
            claimed.deliveries.into_iter().map(|one| (one.event, one.attempt, one.tries)).collect::<Vec<_>>()
        });
    }
    let mut taken: Vec<_> = claiming.join_all().await.concat();
    taken.sort_unstable();
    assert_eq!(taken, (11..=20).map(|event| (event, 1, 1)).collect::<Vec<_>>());
    rig.clock.advance(LEASE_MS - 1);
    assert_eq!(claim(&rig, &webhook, 9).await, []);
    rig.clock.advance(1);
    let again = claim(&rig, &webhook, 2).await;
    assert_eq!(again.iter().map(|one| (one.event, one.attempt)).collect::<Vec<_>>(), [(11, 2), (12, 2)]);
}

async fn deliveries_are_taken_in_the_order_of_their_events(rig: Rig) {
    let first = made(&rig, new("first", Some("a"), 1)).await;
    let second = made(&rig, new("second", Some("a"), 2)).await;
    feed(&rig, &first, 5).await;
    feed(&rig, &second, 5).await;
    let claimed = rig.store.claim_deliveries(&[(first.id, 2), (second.id, 1)], 100, LEASE_MS).await.unwrap();
    let taken: Vec<_> = claimed.deliveries.iter().map(|one| (one.webhook, one.event)).collect();
    assert_eq!(taken, [(first.id, 11), (first.id, 12), (second.id, 11)]);
    let rest = rig.store.claim_deliveries(&[(first.id, 9), (second.id, 9)], 4, LEASE_MS).await.unwrap();
    assert_eq!(rest.deliveries.len(), 4, "of all");
}

async fn the_next_delivery_is_known(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    let next = async |room| {
        let claimed = rig.store.claim_deliveries(&[(webhook.id, room)], 100, LEASE_MS).await.unwrap();
        assert_eq!(claimed.now, rig.now());
        (claimed.deliveries, claimed.next_at)
    };
    assert_eq!(next(4).await, (vec![], None));
    feed(&rig, &webhook, 3).await;
    let (first, next_at) = next(2).await;
    assert_eq!((first.len(), next_at), (2, None), "there may be more");
    assert_eq!(next(2).await.1, Some(rig.now() + LEASE_MS));
    rig.store.settle_delivery(settled(&first[0], DeliveryState::Waiting)).await.unwrap();
    assert_eq!(next(2).await, (vec![], Some(rig.now() + 5_000)));
}

async fn what_comes_of_an_attempt_is_written_down_once(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 2).await;
    let claimed = claim(&rig, &webhook, 2).await;
    let failed = settled(&claimed[0], DeliveryState::Waiting);
    assert_eq!(rig.store.settle_delivery(failed.clone()).await.unwrap(), SettledAnswer::Done);
    let now = seen(&rig, &webhook).await;
    assert_eq!((now.waiting, now.failing_since, now.last_success_at), (2, Some(rig.now()), None));
    rig.clock.advance(5_000);
    let again = claim(&rig, &webhook, 2).await;
    assert_eq!((again[0].attempt, again[0].tries, again[0].log.as_str()), (2, 2, "attempt 1"));
    let late = SettledDelivery { state: DeliveryState::Dead, ..failed };
    assert_eq!(rig.store.settle_delivery(late).await.unwrap(), SettledAnswer::Stale, "another attempt has begun");
    let done = settled(&again[0], DeliveryState::Delivered);
    assert_eq!(rig.store.settle_delivery(done.clone()).await.unwrap(), SettledAnswer::Done);
    assert_eq!(rig.store.settle_delivery(done).await.unwrap(), SettledAnswer::Stale);
    let now = seen(&rig, &webhook).await;
    assert_eq!((now.waiting, now.failing_since, now.last_success_at), (1, None, Some(rig.now())));
    assert_eq!(now.revision, 1, "nobody has changed it");
    let page = Page { after: None, limit: 9 };
    let delivered = rig.store.deliveries(webhook.id, Some(DeliveryState::Delivered), page).await.unwrap();
    let shown: Vec<_> = delivered.iter().map(|one| (one.event, one.attempt, one.ended_at, one.log.as_str())).collect();
    assert_eq!(shown, [(11, 2, Some(rig.now()), "attempt 2")]);
    let all = rig.store.deliveries(webhook.id, None, page).await.unwrap();
    assert_eq!(all.iter().map(|one| one.event).collect::<Vec<_>>(), [12, 11], "newest first");
    let rest = rig.store.deliveries(webhook.id, None, Page { after: Some(all[0].id), limit: 9 }).await.unwrap();
    assert_eq!(rest, all[1..]);
}

async fn an_attempt_that_is_given_back_does_not_count(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 1).await;
    let claimed = claim(&rig, &webhook, 1).await;
    let back = SettledDelivery { is_given_back: true, retry_ms: 0, ..settled(&claimed[0], DeliveryState::Waiting) };
    assert_eq!(rig.store.settle_delivery(back).await.unwrap(), SettledAnswer::Done);
    assert_eq!(seen(&rig, &webhook).await.failing_since, None);
    let again = claim(&rig, &webhook, 1).await;
    assert_eq!((again[0].attempt, again[0].tries), (2, 1));
}

async fn a_receiver_that_asks_for_it_is_left_alone(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 2).await;
    let claimed = claim(&rig, &webhook, 1).await;
    let held = SettledDelivery { hold_ms: Some(60_000), ..settled(&claimed[0], DeliveryState::Waiting) };
    rig.store.settle_delivery(held).await.unwrap();
    let looked = rig.store.claim_deliveries(&[(webhook.id, 9)], 100, LEASE_MS).await.unwrap();
    assert_eq!((looked.deliveries, looked.next_at), (vec![], Some(rig.now() + 60_000)));
    rig.clock.advance(60_000);
    assert_eq!(claim(&rig, &webhook, 9).await.len(), 2);
}

async fn a_receiver_that_is_gone_or_fails_for_days_is_disabled_once(rig: Rig) {
    for (number, gone) in [(1, Some("it said 410".to_owned())), (2, None)] {
        let webhook = made(&rig, new(&format!("ci-{number}"), Some("a"), number)).await;
        feed(&rig, &webhook, 3).await;
        let claimed = claim(&rig, &webhook, 3).await;
        if gone.is_none() {
            let failed = rig.store.settle_delivery(settled(&claimed[0], DeliveryState::Waiting)).await.unwrap();
            assert_eq!(failed, SettledAnswer::Done);
            rig.clock.advance(5 * DAY_MS);
        }
        let last = SettledDelivery { gone: gone.clone(), ..settled(&claimed[1], DeliveryState::Dead) };
        let SettledAnswer::Disabled(disabled) = rig.store.settle_delivery(last).await.unwrap() else {
            panic!("{number} is not disabled");
        };
        assert_eq!((disabled.state, disabled.waiting), (WebhookState::Disabled, 2));
        assert_eq!(gone.is_none(), disabled.why.contains("given up"), "{}", disabled.why);
        let now = seen(&rig, &webhook).await;
        assert_eq!((now.state, now.revision, &now.why), (WebhookState::Disabled, 2, &disabled.why));
        let another = SettledDelivery { gone, ..settled(&claimed[2], DeliveryState::Dead) };
        assert_eq!(rig.store.settle_delivery(another).await.unwrap(), SettledAnswer::Done, "it was disabled before");
        rig.clock.advance(DAY_MS);
        assert_eq!(claim(&rig, &webhook, 9).await, [], "nothing is delivered");
    }
}

async fn dead_deliveries_are_replayed(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 4).await;
    let claimed = claim(&rig, &webhook, 4).await;
    for one in &claimed[..3] {
        rig.store.settle_delivery(settled(one, DeliveryState::Dead)).await.unwrap();
        rig.clock.advance(1_000);
    }
    rig.store.settle_delivery(settled(&claimed[3], DeliveryState::Delivered)).await.unwrap();
    let unknown = WebhookId::new(START, 99);
    assert_eq!(rig.store.count_dead_deliveries(&[unknown, webhook.id]).await.unwrap(), [0, 3]);
    assert_eq!(seen(&rig, &webhook).await.waiting, 0);
    let ReplayAnswer::Waits(one) = rig.store.replay_delivery(webhook.id, claimed[3].id).await.unwrap() else {
        panic!("not replayed");
    };
    assert_eq!((one.state, one.due_at, one.tries, one.attempt), (DeliveryState::Waiting, rig.now(), 0, 1));
    let again = rig.store.replay_delivery(webhook.id, claimed[3].id).await.unwrap();
    assert_eq!(again, ReplayAnswer::Waits(one), "it waits still");
    assert_eq!(rig.store.replay_delivery(unknown, claimed[3].id).await.unwrap(), ReplayAnswer::Unknown);
    assert_eq!(seen(&rig, &webhook).await.waiting, 1);
    assert_eq!(rig.store.replay_deliveries(webhook.id, START + 1_000).await.unwrap(), 2, "those since then");
    assert_eq!(rig.store.replay_deliveries(webhook.id, Millis::MIN).await.unwrap(), 1);
    assert_eq!(rig.store.replay_deliveries(webhook.id, Millis::MIN).await.unwrap(), 0);
    assert_eq!(seen(&rig, &webhook).await.waiting, 4);
    let again = claim(&rig, &webhook, 9).await;
    let numbers: Vec<_> = again.iter().map(|one| (one.event, one.attempt, one.tries)).collect();
    assert_eq!(numbers, [(11, 2, 1), (12, 2, 1), (13, 2, 1), (14, 2, 1)]);
}

async fn a_full_backlog_takes_no_replays(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 2).await;
    let claimed = claim(&rig, &webhook, 2).await;
    for one in &claimed {
        rig.store.settle_delivery(settled(one, DeliveryState::Dead)).await.unwrap();
    }
    feed(&rig, &webhook, BACKLOG_MAX as i64 - 1).await;
    assert_eq!(rig.store.replay_deliveries(webhook.id, Millis::MIN).await.unwrap(), 1, "there is room for one");
    let dead =
        rig.store.deliveries(webhook.id, Some(DeliveryState::Dead), Page { after: None, limit: 9 }).await.unwrap();
    assert_eq!(rig.store.replay_delivery(webhook.id, dead[0].id).await.unwrap(), ReplayAnswer::Full);
    assert_eq!(seen(&rig, &webhook).await.waiting, BACKLOG_MAX);
}

async fn deliveries_that_have_ended_are_forgotten(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    let other = made(&rig, new("other", Some("a"), 2)).await;
    for one in [&webhook, &other] {
        feed(&rig, one, 6).await;
        for (claimed, step) in claim(&rig, one, 5).await.iter().zip(0..) {
            let state = if step < 4 { DeliveryState::Delivered } else { DeliveryState::Dead };
            rig.store.settle_delivery(settled(claimed, state)).await.unwrap();
            rig.clock.advance(1_000);
        }
    }
    let forget = async |age_ms, keep, limit| {
        let state = DeliveryState::Delivered;
        rig.store.forget_deliveries(DeliveryRetention { state, age_ms, keep, limit }).await.unwrap()
    };
    assert_eq!(forget(DAY_MS, 10, 100).await, 0);
    assert_eq!(forget(DAY_MS, 3, 1).await, 1, "one at a time");
    assert_eq!(forget(DAY_MS, 3, 100).await, 1, "three of each webhook are kept");
    assert_eq!(forget(3_500, 10, 100).await, 4, "too old");
    let left = rig.store.deliveries(other.id, None, Page { after: None, limit: 9 }).await.unwrap();
    assert_eq!(left.iter().map(|one| one.event).collect::<Vec<_>>(), [16, 15, 14, 13], "what waits or is dead stays");
    assert_eq!(rig.store.count_dead_deliveries(&[webhook.id]).await.unwrap(), [1]);
}

async fn deleting_a_webhook_deletes_what_waits_for_it(rig: Rig) {
    let webhook = made(&rig, new("ci", Some("a"), 1)).await;
    feed(&rig, &webhook, 3).await;
    let claimed = claim(&rig, &webhook, 1).await;
    assert!(rig.store.delete_webhook(webhook.id).await.unwrap());
    assert!(!rig.store.delete_webhook(webhook.id).await.unwrap());
    assert_eq!(rig.store.webhook(webhook.id).await.unwrap(), None);
    assert_eq!(rig.store.deliveries(webhook.id, None, Page { after: None, limit: 9 }).await.unwrap(), []);
    let late = rig.store.settle_delivery(settled(&claimed[0], DeliveryState::Delivered)).await.unwrap();
    assert_eq!(late, SettledAnswer::Stale);
    assert_eq!(rig.store.replay_deliveries(webhook.id, Millis::MIN).await.unwrap(), 0);
}
