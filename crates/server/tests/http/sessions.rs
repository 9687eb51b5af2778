//! Sessions of the dashboard, links that begin one, and their routes.

use baton::proto::{CreateKey, CreatedKey, RotateKey};
use baton_server::service::sessions::{self, SignedIn};
use baton_server::{Error, Scope};

use crate::harness::{KEY, On, START, Server, eventually, on_both, refusal};

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

async fn with_key(server: &Server, scopes: &[&str], namespace: Option<&str>) -> CreatedKey {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let wanted =
        CreateKey { name: "a person".into(), scopes, namespace: namespace.map(str::to_owned), expires_in_ms: None };
    server.client.create_key(&wanted).await.unwrap()
}

async fn sign_in(server: &Server, key: &str) -> String {
    sessions::sign_in(&server.app, key, None, None).await.unwrap()
}

async fn found(server: &Server, token: &str) -> Option<SignedIn> {
    sessions::find(&server.app, token, None).await.unwrap()
}

async fn a_session_may_do_what_its_key_may(on: On) {
    let server = Server::start(on).await;
    let key = with_key(&server, &["read"], None).await;
    let token = sign_in(&server, &key.key).await;
    assert!(token.starts_with("bs_") && token.len() > 50, "{token}");
    let who = found(&server, &token).await.unwrap();
    assert_eq!((&who.caller.key_id, who.caller.can(Scope::Read)), (&key.id, true));
    assert!(!who.caller.can(Scope::Submit) && who.caller.namespace.is_none());
    assert_eq!(who.csrf, sessions::again(&server.app, &who).await.unwrap().unwrap().csrf);
    let administrator = found(&server, &sign_in(&server, KEY).await).await.unwrap();
    assert!(administrator.caller.is_administrator());
    assert_ne!(administrator.csrf, who.csrf);
    // A token is no API key, and an API key is no token.
    assert_eq!(refusal(server.client_with(&token).whoami().await), "403 bad_credential");
    assert!(found(&server, &key.key).await.is_none() && found(&server, KEY).await.is_none());
    for wrong in ["", "bs_", "bk_nobody", &"x".repeat(10_000)] {
        assert!(found(&server, wrong).await.is_none(), "{wrong}");
        assert!(matches!(sessions::sign_in(&server.app, wrong, None, None).await, Err(Error::BadCredential(_))));
    }
    assert!(!server.holds(&token).await, "only its hash is kept");
}

async fn signing_in_again_ends_the_session_before(on: On) {
    let server = Server::start(on).await;
    let key = with_key(&server, &["read"], None).await;
    let first = sign_in(&server, &key.key).await;
    assert!(found(&server, &first).await.is_some());
    let second = sessions::sign_in(&server.app, KEY, None, Some(&first)).await.unwrap();
    assert_ne!(first, second);
    assert!(found(&server, &first).await.is_none());
    assert!(found(&server, &second).await.unwrap().caller.is_administrator());
}

async fn a_session_ends_with_its_key(on: On) {
    let server = Server::start(on).await;
    let [revoked, rotated, kept] = [
        with_key(&server, &["read"], None).await,
        with_key(&server, &["read"], None).await,
        with_key(&server, &["read"], None).await,
    ];
    let mut who = Vec::new();
    for key in [&revoked, &rotated, &kept] {
        let token = sign_in(&server, &key.key).await;
        who.push((found(&server, &token).await.unwrap(), token));
    }
    server.client.revoke_key(&revoked.id).await.unwrap();
    server.client.rotate_key(&rotated.id, &RotateKey { overlap_ms: Some(0), expires_in_ms: None }).await.unwrap();
    server.client.rotate_key(&kept.id, &RotateKey::default()).await.unwrap();
    for ((signed_in, token), is_good) in who.iter().zip([false, false, true]) {
        assert_eq!(found(&server, token).await.is_some(), is_good);
        assert_eq!(sessions::again(&server.app, signed_in).await.unwrap().is_some(), is_good);
    }
}

async fn a_token_is_replaced_when_it_is_old(on: On) {
    let server = Server::start(on).await;
    let first = sign_in(&server, KEY).await;
    let young = found(&server, &first).await.unwrap();
    assert!(!young.is_stale);
    assert_eq!(sessions::rotate(&server.app, &young, &first).await.unwrap(), None);
    let old = sign_in(&server, KEY).await;
    server.clock.advance(HOUR);
    let who = found(&server, &old).await.unwrap();
    assert!(who.is_stale);
    // Two tabs at the same moment: one of them gets the new token, and the other one goes on with the old.
    let both = tokio::join!(sessions::rotate(&server.app, &who, &old), sessions::rotate(&server.app, &who, &old));
    let new = match (both.0.unwrap(), both.1.unwrap()) {
        (Some(new), None) | (None, Some(new)) => new,
        other => panic!("{other:?}"),
    };
    let other_tab = found(&server, &old).await.unwrap();
    assert!(!other_tab.is_stale);
    let now = found(&server, &new).await.unwrap();
    assert!(!now.is_stale && now.csrf == who.csrf && other_tab.csrf == who.csrf);
    server.clock.advance(MINUTE);
    eventually("the old token is over", async || found(&server, &old).await.is_none()).await;
    assert!(found(&server, &new).await.is_some());
    assert!(sessions::again(&server.app, &who).await.unwrap().is_some(), "the session itself goes on");
}

async fn a_session_that_nobody_uses_ends(on: On) {
    let server = Server::with(on, |settings| settings.session_idle_ms = 10 * MINUTE as u64).await;
    let (used, unused) = (sign_in(&server, KEY).await, sign_in(&server, KEY).await);
    server.clock.advance(10 * MINUTE - 1);
    assert!(found(&server, &used).await.is_some());
    server.clock.advance(1);
    assert!(found(&server, &unused).await.is_none());
    assert!(found(&server, &used).await.is_some());
}

async fn a_link_signs_in_once_as_the_key_that_asked(on: On) {
    let server = Server::start(on).await;
    let key = with_key(&server, &["worker"], Some("team")).await;
    let nobody = server.send(server.request("POST", "/api/v1/signin-links"), "").await;
    assert_eq!(nobody.refusal(), "401 no_credential");
    let link = server.client_with(&key.key).create_signin_link().await.unwrap();
    assert_eq!(link.expires_at.0, START + 10 * MINUTE);
    let token = link.path.strip_prefix("/signin/once/").unwrap();
    assert!(token.starts_with("bi_") && !server.holds(token).await, "only its hash is kept");
    let both = tokio::join!(
        sessions::sign_in_once(&server.app, token, None, None),
        sessions::sign_in_once(&server.app, token, None, None)
    );
    let session = match both {
        (Ok(session), Err(Error::BadCredential(_))) | (Err(Error::BadCredential(_)), Ok(session)) => session,
        other => panic!("{other:?}"),
    };
    let who = found(&server, &session).await.unwrap();
    assert_eq!((who.caller.key_id.as_str(), who.caller.namespace.as_deref()), (key.id.as_str(), Some("team")));
    // It ends with the secret that asked for it.
    server.client.rotate_key(&key.id, &RotateKey { overlap_ms: Some(0), expires_in_ms: None }).await.unwrap();
    assert!(found(&server, &session).await.is_none());
    // The key in the settings, and the person who started the server, are no keys of the store.
    for link in [server.client.create_signin_link().await.unwrap(), sessions::operator_link(&server.app).await.unwrap()]
    {
        let token = link.path.strip_prefix("/signin/once/").unwrap();
        let session = sessions::sign_in_once(&server.app, token, None, None).await.unwrap();
        assert!(found(&server, &session).await.unwrap().caller.is_administrator());
    }
}

async fn a_link_is_as_good_as_its_key_and_for_ten_minutes(on: On) {
    let server = Server::start(on).await;
    let key = with_key(&server, &["read"], None).await;
    let client = server.client_with(&key.key);
    let (late, revoked) = (client.create_signin_link().await.unwrap(), client.create_signin_link().await.unwrap());
    let used = async |path: &str| {
        let token = path.strip_prefix("/signin/once/").unwrap();
        sessions::sign_in_once(&server.app, token, None, None).await
    };
    server.client.revoke_key(&key.id).await.unwrap();
    assert!(matches!(used(&revoked.path).await, Err(Error::BadCredential(_))));
    server.clock.advance(10 * MINUTE);
    assert!(matches!(used(&late.path).await, Err(Error::BadCredential(_))));
    let own = server.client.create_signin_link().await.unwrap();
    server.clock.advance(10 * MINUTE);
    assert!(matches!(used(&own.path).await, Err(Error::BadCredential(_))));
}

async fn the_sessions_of_a_key_are_ended_together(on: On) {
    let server = Server::start(on).await;
    let (one, two) = (with_key(&server, &["read"], None).await, with_key(&server, &["read"], None).await);
    let foreign = server.client_for(&["admin"], Some("elsewhere")).await;
    let tokens = [sign_in(&server, &one.key).await, sign_in(&server, &one.key).await, sign_in(&server, &two.key).await];
    for token in &tokens {
        assert!(found(&server, token).await.is_some());
    }
    let own = server.client_with(&one.key);
    assert_eq!(refusal(own.end_sessions(&two.id).await), "403 forbidden");
    assert_eq!(refusal(foreign.end_sessions(&two.id).await), "404 not_found");
    assert_eq!(refusal(foreign.end_sessions("operator").await), "404 not_found");
    assert_eq!(refusal(server.client.end_sessions("key_nobody").await), "404 not_found");
    assert_eq!(own.end_sessions(&one.id).await.unwrap().ended, 2);
    let mut left = Vec::new();
    for token in &tokens {
        left.push(found(&server, token).await.is_some());
    }
    assert_eq!(left, [false, false, true]);
    assert_eq!(server.client.end_sessions(&two.id).await.unwrap().ended, 1);
    assert_eq!(server.client.end_sessions("operator").await.unwrap().ended, 0);
    let log = server.client.audit_log(None, None).await.unwrap().lines;
    let line = log.iter().find(|line| line.action == "session.end_all" && line.subject == one.id).unwrap();
    assert_eq!((line.actor.as_str(), line.detail.as_str()), (one.id.as_str(), "2 ended"));
    assert!(log.iter().any(|line| line.action == "session.create" && line.actor == two.id));
}

on_both!(
    a_session_may_do_what_its_key_may,
    signing_in_again_ends_the_session_before,
    a_session_ends_with_its_key,
    a_token_is_replaced_when_it_is_old,
    a_session_that_nobody_uses_ends,
    a_link_signs_in_once_as_the_key_that_asked,
    a_link_is_as_good_as_its_key_and_for_ten_minutes,
    the_sessions_of_a_key_are_ended_together,
);
