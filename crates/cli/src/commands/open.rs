//! `baton open`: the dashboard in a browser, signed in.

use std::process::Stdio;
use std::time::Duration;

use baton::Client;
use clap::Args;
use tokio::process::Command;

use crate::connection::Connection;
use crate::exit::Exit;
use crate::output::print_line;

/// How long a program may take to open a browser. It goes on beside us when it is one itself.
const OPENER_WAIT: Duration = Duration::from_secs(3);

#[derive(Args)]
#[command(after_help = "Examples:
  baton open
  baton open --print                             the link alone, for a browser elsewhere
  ssh -L 7400:127.0.0.1:7400 HOST baton open     then open the link here

Signs in with the key that commands use, by a link that is good once and for ten minutes. On a machine with other users
--print keeps it from its list of processes.")]
pub struct OpenArgs {
    /// Print the link, and open nothing.
    #[arg(long)]
    print: bool,
}

/// Opens the dashboard, or says where it is.
pub async fn open(connection: &Connection, args: OpenArgs) -> Result<(), Exit> {
    let url = signed_in(&connection.client()?, "/").await?;
    if args.print {
        print_line(url);
    } else if in_browser(&url).await {
        eprintln!("opened the dashboard at {}", connection.find_url());
    } else {
        eprintln!("Open this within ten minutes. It signs in once:");
        print_line(url);
    }
    Ok(())
}

/// A link that signs in once, and leads to this page of the dashboard.
pub async fn signed_in(client: &Client, page: &str) -> Result<String, Exit> {
    let link = client.create_signin_link().await?;
    let next = if page == "/" { String::new() } else { format!("?next={page}") };
    Ok(format!("{}{}{next}", client.url().trim_end_matches('/'), link.path))
}

/// Opens a page in a browser, if there is one.
pub async fn in_browser(url: &str) -> bool {
    has_screen() && browse(url).await
}

/// Whether a browser could be shown here.
fn has_screen() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match std::env::consts::OS {
        "macos" => !is_set("SSH_CONNECTION"),
        _ => is_set("BROWSER") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") || is_set("WSL_DISTRO_NAME"),
    }
}

async fn browse(url: &str) -> bool {
    let own = std::env::var("BROWSER").ok();
    // Several may be named, with colons between them. One with arguments is a matter for xdg-open.
    let own =
        own.iter().flat_map(|names| names.split(':')).filter(|name| !name.is_empty() && !name.contains([' ', '%']));
    let usual: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "wslview"] };
    for program in own.chain(usual.iter().copied()) {
        let quiet =
            Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = quiet else { continue };
        match tokio::time::timeout(OPENER_WAIT, child.wait()).await {
            Ok(Ok(status)) if !status.success() => {}
            Ok(Err(_)) => {}
            Ok(Ok(_)) | Err(_) => return true,
        }
    }
    false
}
