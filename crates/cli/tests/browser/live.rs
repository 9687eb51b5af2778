//! Pages that stay open.

use crate::rig::{Browser, KEY, Site, eventually, in_browser};

async fn is_live(browser: &Browser) -> bool {
    browser.run("return document.querySelector('#live')?.textContent === 'Live'").await == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_found_again_by_an_open_page() {
    let mut site = Site::start().await;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at("/keys")).await;
        eventually("it is followed", async || is_live(browser).await).await;
        browser.mark().await;
        site.server.kill9();
        eventually("the page says so", async || browser.has("#live.off").await).await;
        site.server.restart().await;
        eventually("it is followed again", async || is_live(browser).await && !browser.has("#live.off").await).await;
        site.key_named("after the restart", &["read"]).await;
        browser.reads("after the restart").await;
        assert!(browser.is_marked().await, "it was loaded again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_users_are_text() {
    let site = Site::start().await;
    let hostile = [
        "<script>window.isOwned = 1</script>",
        "<img src=x onerror=\"window.isOwned = 1\">",
        "\"'><svg onload=window.isOwned=1>",
        "</title><script>window.isOwned = 1</script>",
        "<!--/part--><!--part keys-list-->",
        "\u{202e}txt.exe ${7*7} {{7*7}}",
    ];
    for name in hostile {
        site.key_named(name, &["read"]).await;
    }
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        for path in ["/keys", "/audit"] {
            browser.goto(&site.at(path)).await;
            for name in &hostile[..5] {
                browser.reads(name).await;
            }
            eventually("it is followed", async || is_live(browser).await).await;
            assert_eq!(browser.run("return window.isOwned === undefined").await, true);
            assert_eq!(browser.run("return document.querySelectorAll('main script, main img').length").await, 0);
        }
        for name in hostile {
            let query: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
            browser.goto(&site.at(&format!("/keys?q={query}"))).await;
            browser.element("#app").await;
            assert_eq!(browser.run("return window.isOwned === undefined").await, true);
        }
    })
    .await;
}
