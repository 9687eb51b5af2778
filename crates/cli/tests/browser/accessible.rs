//! What axe-core finds: nothing serious, on any page, light or dark.

use std::path::PathBuf;

use serde_json::Value;

use crate::rig::{Browser, KEY, Site, in_browser};

/// The version that `scripts/axe` fetches.
const VERSION: &str = "4.14.1";
/// Pages that no entry of the navigation leads to.
const OTHERS: [&str; 3] = ["/more", "/namespaces/choose", "/runs/01890000-0000-7000-8000-000000000000"];
/// What counts: the rest is looked at by people.
const CHECK: &str = "
    const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations
        .filter((one) => one.impact === 'serious' || one.impact === 'critical')
        .map((one) => `${one.id} (${one.impact}): ${one.nodes.map((node) => node.html).slice(0, 5).join(' | ')}`)));
";

fn axe() -> String {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|place| !place.is_empty()).map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let path = cache.unwrap_or_else(home).join(format!("baton/axe-core-{VERSION}.js"));
    std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{} is not there: scripts/axe fetches it", path.display()))
}

async fn check(browser: &Browser, axe: &str, path: &str, theme: &str, wrong: &mut Vec<String>) {
    browser.run(axe).await;
    let Value::Array(found) = browser.run_async(CHECK).await else { panic!("axe-core says nothing about {path}") };
    wrong.extend(found.iter().map(|one| format!("{path} ({theme}): {}", one.as_str().unwrap_or_default())));
}

#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_nothing_serious_on_any_page() {
    let (site, axe) = (Site::start().await, axe());
    site.key(&["read"]).await;
    let link = site.api.create_signin_link().await.unwrap().path;
    in_browser(async |browser| {
        let mut wrong = Vec::new();
        for theme in ["light", "dark"] {
            for path in ["/signin", &link, "/no/such/page"] {
                browser.goto(&site.at(path)).await;
                browser.run(&format!("document.documentElement.dataset.theme = '{theme}'")).await;
                check(browser, &axe, path, theme, &mut wrong).await;
            }
        }
        browser.sign_in(&site, KEY).await;
        let links = "return [...document.querySelectorAll('nav.nav a')].map((link) => link.getAttribute('href'))";
        let links = browser.run(links).await;
        let mut paths: Vec<String> =
            links.as_array().unwrap().iter().map(|link| link.as_str().unwrap().to_owned()).collect();
        paths.retain(|path| !path.ends_with(".json"));
        paths.extend(OTHERS.map(str::to_owned));
        paths.sort();
        paths.dedup();
        for theme in ["light", "dark"] {
            browser.run(&format!("document.cookie = 'baton_theme={theme}; path=/'")).await;
            for path in &paths {
                browser.goto(&site.at(path)).await;
                browser.element(&format!("html[data-theme={theme}] main")).await;
                check(browser, &axe, path, theme, &mut wrong).await;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    })
    .await;
}
