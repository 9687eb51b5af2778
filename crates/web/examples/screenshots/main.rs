//! Pictures of the dashboard: a server in this process on a clock that is moved by hand, an hour of work on it, and
//! Chromium in front of it. `scripts/screenshots` calls it.
//!
//! `screenshots README-DIR`                           the few pictures of the README
//! `screenshots --all DIR [--data none|normal|absurd] [--only PART]`   every page, wide and narrow, light and dark

mod absurd;
mod browser;
mod builds;
#[path = "../../tests/common/mod.rs"]
mod common;
mod crew;
mod machines;
mod normal;
mod orders;
mod pages;

use std::path::{Path, PathBuf};

use browser::{Browser, Look};
use common::{KEY, Site};
use pages::Shot;

/// A README is read on trains, too.
const BYTES_MAX: usize = 200_000;
/// Pages higher than this are cut in pictures of whole pages.
const HEIGHT_MAX: u32 = 3_200;
/// Says what is wider than the window, and where.
const TOO_WIDE: &str = "
    const wide = innerWidth, found = [];
    if (document.documentElement.scrollWidth > wide) found.push(`page ${document.documentElement.scrollWidth}`);
    const clips = (node) => { for (let at = node.parentElement; at; at = at.parentElement) {
        const how = getComputedStyle(at).overflowX; if (how !== 'visible') return true; } return false; };
    for (const node of document.querySelectorAll('main *, .top *, .nav *')) {
        const box = node.getBoundingClientRect();
        if (box.width > 1 && box.right > wide + 1 && !clips(node)) {
            found.push(`${node.nodeName.toLowerCase()}.${node.getAttribute('class') || ''} to ${Math.round(box.right)}`);
            if (found.length > 4) break;
        }
    }
    return found.join('; ');";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Data {
    None,
    Normal,
    Absurd,
}

struct Wanted {
    directory: PathBuf,
    data: Vec<Data>,
    is_all: bool,
    only: Option<String>,
}

fn wanted() -> Result<Wanted, String> {
    let mut arguments = std::env::args().skip(1);
    let mut wanted = Wanted {
        directory: PathBuf::new(),
        data: vec![Data::None, Data::Normal, Data::Absurd],
        is_all: false,
        only: None,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--all" => (wanted.is_all, wanted.directory) = (true, value()?.into()),
            "--only" => wanted.only = Some(value()?),
            "--data" => {
                wanted.data = vec![match value()?.as_str() {
                    "none" => Data::None,
                    "normal" => Data::Normal,
                    "absurd" => Data::Absurd,
                    other => return Err(format!("no such data: {other}; there are none, normal and absurd")),
                }];
            }
            directory => wanted.directory = directory.into(),
        }
    }
    if wanted.directory.as_os_str().is_empty() { Err("where to?".into()) } else { Ok(wanted) }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), String> {
    let wanted = wanted()?;
    std::fs::create_dir_all(&wanted.directory).map_err(|error| error.to_string())?;
    let wanted =
        Wanted { directory: std::fs::canonicalize(&wanted.directory).map_err(|error| error.to_string())?, ..wanted };
    if !wanted.is_all {
        return few(&wanted.directory).await;
    }
    let mut complaints = 0;
    for data in &wanted.data {
        complaints += every(&wanted, *data).await;
    }
    println!("{complaints} complaints");
    Ok(())
}

async fn site() -> Site {
    Site::with(|settings| {
        settings.listen = "10.0.4.2:7400".into();
        // Nobody answers there.
        settings.webhook_allow = "localhost".into();
    })
    .await
}

async fn signed_in(browser: &Browser, site: &Site) {
    browser.goto(&format!("http://{}/signin", site.address)).await;
    let script =
        format!("document.querySelector('#key').value = '{KEY}'; document.querySelector('main form').requestSubmit();");
    browser.run(&script).await;
    for _ in 0..200 {
        if browser.run("return location.pathname === '/' && document.readyState === 'complete'").await == true {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("not signed in");
}

/// Pictures of the README.
async fn few(directory: &Path) -> Result<(), String> {
    let site = site().await;
    let shots = normal::hour(&site).await;
    let browser = Browser::open().await;
    signed_in(&browser, &site).await;
    let find = |name: &str| shots.iter().find(|shot| shot.name == name).cloned().ok_or(format!("no page {name}"));
    let mut large = Vec::new();
    for (name, page, height) in [("overview", "overview", 920), ("run", "run-order", 1_060), ("runs", "runs", 790)] {
        let shot = find(page)?;
        for (is_dark, theme) in [(false, "light"), (true, "dark")] {
            let look = Look { width: 1_280, height, height_max: height, is_dark, scale: 1.0 };
            browser.look(&look).await;
            browser.goto(&format!("http://{}{}", site.address, shot.path)).await;
            let picture = browser.picture(&look, false).await;
            let path = directory.join(format!("{name}-{theme}.png"));
            println!("{}: {} bytes", path.display(), picture.len());
            if picture.len() > BYTES_MAX {
                large.push(path.display().to_string());
            }
            std::fs::write(path, picture).map_err(|error| error.to_string())?;
        }
    }
    browser.close().await;
    if large.is_empty() { Ok(()) } else { Err(format!("more than {BYTES_MAX} bytes: {}", large.join(", "))) }
}

/// Every page with this data, in all four ways, and sheets of them.
async fn every(wanted: &Wanted, data: Data) -> usize {
    let name = format!("{data:?}").to_lowercase();
    let site = site().await;
    let mut shots = match data {
        Data::None => pages::everywhere(),
        Data::Normal => normal::hour(&site).await,
        Data::Absurd => absurd::fill(&site).await,
    };
    shots.retain(|shot| wanted.only.as_ref().is_none_or(|only| shot.name.contains(only.as_str())));
    println!("{name}: {} pages", shots.len());
    let browser = Browser::open().await;
    let mut complaints = 0;
    let looks = [("wide", 1_440, 900), ("narrow", 390, 844)].into_iter().flat_map(|(kind, width, height)| {
        let look = Look { width, height, height_max: HEIGHT_MAX, is_dark: false, scale: 1.0 };
        [(kind.to_owned(), look), (format!("{kind}-dark"), Look { is_dark: true, ..look })]
    });
    let looks: Vec<(String, Look)> = looks.collect();
    let signin = Shot::new("signin", "/signin".into());
    for (kind, look) in &looks {
        complaints += taken(wanted, &browser, &site, look, &format!("{name}-{kind}"), &signin).await;
    }
    signed_in(&browser, &site).await;
    for (kind, look) in &looks {
        let kind = format!("{name}-{kind}");
        for shot in &shots {
            complaints += taken(wanted, &browser, &site, look, &kind, shot).await;
        }
        for complaint in
            browser.complaints().await.iter().filter(|line| !line.contains("status of 40") && !line.contains("[DOM]"))
        {
            complaints += 1;
            println!("{kind}: {complaint}");
        }
        let path = |shot: &Shot| wanted.directory.join(format!("{kind}-{}.png", shot.name));
        let pictures: Vec<PathBuf> = std::iter::once(&signin).chain(&shots).map(path).collect();
        let (at_once, columns, width) = if look.width > 700 { (4, 2, 900) } else { (10, 5, 390) };
        for (number, some) in pictures.chunks(at_once).enumerate() {
            let to = wanted.directory.join(format!("sheet-{kind}-{number:02}.png"));
            browser.sheet(some, columns, width, &to).await;
        }
    }
    browser.close().await;
    complaints
}

/// Takes one picture. Returns how many complaints there are about the page.
async fn taken(wanted: &Wanted, browser: &Browser, site: &Site, look: &Look, kind: &str, shot: &Shot) -> usize {
    browser.look(look).await;
    browser.goto(&format!("http://{}{}", site.address, shot.path)).await;
    let wide = browser.run(TOO_WIDE).await;
    let wide = wide.as_str().unwrap_or_default();
    if !wide.is_empty() {
        println!("{kind} {}: too wide: {wide}", shot.name);
    }
    let path = wanted.directory.join(format!("{kind}-{}.png", shot.name));
    std::fs::write(path, browser.picture(look, true).await).expect("a picture is written");
    usize::from(!wide.is_empty())
}
