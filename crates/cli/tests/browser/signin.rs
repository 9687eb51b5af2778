//! Getting in, and out.

use baton_testkit::{Baton, Process};

use crate::rig::{BATON, KEY, PATIENCE, Site, eventually, in_browser, text};

#[tokio::test(flavor = "multi_thread")]
async fn somebody_signs_in_with_a_key_and_out() {
    let site = Site::start().await;
    in_browser(async |browser| {
        browser.goto(&site.at("/more?a=b")).await;
        browser.arrives_at("/signin?next=%2Fmore%3Fa%3Db").await;
        assert_eq!(browser.run("return document.activeElement.id").await, "key");
        browser.type_into("#key", KEY).await;
        browser.press("main form button").await;
        browser.arrives_at("/more?a=b").await;
        let cookies = browser.cookies().await;
        let session = cookies.iter().find(|cookie| cookie.name().starts_with("baton_session")).unwrap();
        assert_eq!((session.http_only(), session.same_site().map(|rule| rule.is_lax())), (Some(true), Some(true)));
        assert!(!session.value().contains(KEY));
        assert!(!browser.run("return document.cookie").await.to_string().contains("baton_session"));
        browser.press("nav form[action='/signout'] button").await;
        browser.arrives_at("/signin").await;
        browser.goto(&site.at("/more")).await;
        browser.arrives_at("/signin?next=%2Fmore").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_leaves_the_focus_where_it_was() {
    let site = Site::start().await;
    in_browser(async |browser| {
        browser.goto(&site.at("/more")).await;
        browser.type_into("#key", "bk_nobody").await;
        browser.press("main form button").await;
        browser.reads("This key is not good here.").await;
        assert_eq!(browser.run("return document.activeElement.id").await, "key");
        assert_eq!(browser.run("return document.activeElement.value").await, "");
        browser.type_into("#key", KEY).await;
        browser.press("main form button").await;
        browser.arrives_at("/more").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_once() {
    let site = Site::start().await;
    let link = site.command(&["open", "--print"]).await;
    let link = link.lines().find(|line| line.starts_with("http")).unwrap().to_owned();
    assert!(link.starts_with(&site.at("/signin/once/")), "{link}");
    in_browser(async |browser| {
        // Looking at it does not use it up.
        browser.goto(&link).await;
        browser.goto(&link).await;
        browser.press("main form button").await;
        browser.arrives_at("/").await;
        browser.element("#app").await;
        browser.goto(&link).await;
        browser.press("main form button").await;
        browser.reads("This link is not good any more.").await;
        browser.goto(&site.at("/more")).await;
        browser.element("#app").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_prints_a_link() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Baton::serve(&["--data", text(home.path())], &[]).await;
    let link = server.process().wait_for_line("/signin/once/", PATIENCE).await.trim().to_owned();
    in_browser(async |browser| {
        browser.goto(&link).await;
        browser.press("main form button").await;
        browser.arrives_at("/").await;
        // Anyone with access to the machine may do everything.
        browser.element("nav a[href='/keys']").await;
    })
    .await;
    // What goes to a log later has no link in it.
    server.restart().await;
    let said = server.process().wait_for_line("The dashboard is at", PATIENCE).await;
    assert!(!said.contains("once"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_cookie_is_for_this_host_alone() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--tls", "self-signed", "--data", text(home.path())];
    let server = Process::spawn(BATON, arguments, [("BATON_API_KEY", KEY)]);
    let line = server.wait_for_line("Baton listens on", PATIENCE).await;
    let url = line.split_whitespace().find(|word| word.starts_with("https://")).unwrap().to_owned();
    in_browser(async |browser| {
        browser.goto(&format!("{url}/")).await;
        browser.type_into("#key", KEY).await;
        browser.press("main form button").await;
        browser.arrives_at("/").await;
        let cookies = browser.cookies().await;
        let session = cookies.iter().find(|one| one.name().starts_with("__Host-baton_session")).unwrap();
        assert_eq!((session.secure(), session.http_only(), session.path()), (Some(true), Some(true), Some("/")));
        assert!(!cookies.iter().any(|one| one.name().starts_with("baton_session")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_open_leads_to_the_sign_in_when_its_key_is_revoked() {
    let site = Site::start().await;
    let key = site.key(&["read"]).await;
    in_browser(async |browser| {
        browser.sign_in(&site, &key.key).await;
        browser.goto(&site.at("/schedules")).await;
        eventually("it is followed", async || {
            browser.run("return document.querySelector('#live').textContent").await == "Live"
        })
        .await;
        site.api.revoke_key(&key.id).await.unwrap();
        browser.arrives_at("/signin?next=%2Fschedules").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_not_is_told_what_is_missing() {
    let site = Site::start().await;
    let key = site.key(&["read"]).await;
    in_browser(async |browser| {
        browser.sign_in(&site, &key.key).await;
        for path in ["/keys", "/settings", "/audit"] {
            assert!(!browser.has(&format!("nav a[href='{path}']")).await, "{path} is shown");
            browser.goto(&site.at(path)).await;
            browser.reads("lacks the scope admin").await;
        }
        // No page has a button for it, and the server does not take it either.
        let refused = "const done = arguments[arguments.length - 1]; \
            const csrf = document.body.dataset.csrf; \
            fetch('/form/keys/new', { method: 'POST', body: new URLSearchParams({ csrf, name: 'mine', scope: 'admin' }), \
                headers: { accept: 'application/json' } }) \
            .then(async (answer) => done([answer.status, (await answer.json()).error]))";
        let answer = browser.run_async(refused).await;
        assert_eq!(answer[0], 403, "{answer}");
        assert!(answer[1].as_str().unwrap().contains("lacks the scope admin"), "{answer}");
        assert!(!site.api.keys().await.unwrap().keys.iter().any(|key| key.name == "mine"));
        browser.goto(&site.at("/no/such/page")).await;
        browser.reads("Nothing is here").await;
        browser.press("a[href='/']").await;
        browser.arrives_at("/").await;
    })
    .await;
}
