//! `baton top`: the dashboard in a terminal.

use std::io::{IsTerminal, stdin, stdout};

use baton::Client;
use baton_top::{Error, Options, View};
use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::output::{color_is_wanted, print_line};

pub const HELP: &str = "\
Queues, runs, workers and pools, live. Keys: 1 to 4 choose the list, / filters it, Enter opens a row, ? shows the rest. Cancel, retry,
drain and pause ask first. With --once one frame is printed as text, for scripts and pipes.

Examples:
  baton top
  baton top runs --filter 'state:failed queue:mail'
  baton top workers --once --width 80";

/// Columns of a frame that is printed and has no terminal to fit.
const COLUMNS: u16 = 120;

/// A list.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum List {
    Queues,
    Runs,
    Workers,
    Pools,
}

#[derive(Args)]
pub struct TopArgs {
    /// The list that is shown first.
    #[arg(value_enum, default_value = "queues")]
    list: List,
    /// Only of this namespace.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Filter that list, as `/` does.
    #[arg(long, short, value_name = "WORDS", default_value = "")]
    filter: String,
    /// Print one frame as plain text, and end.
    #[arg(long)]
    once: bool,
    /// How wide that frame is. [default: the terminal, or 120 columns]
    #[arg(long, value_name = "COLUMNS", requires = "once")]
    width: Option<u16>,
}

/// Shows the dashboard.
pub async fn top(client: Client, args: TopArgs) -> Result<(), Exit> {
    let TopArgs { list, namespace, filter, once, width } = args;
    let view = match list {
        List::Queues => View::Queues,
        List::Runs => View::Runs,
        List::Workers => View::Workers,
        List::Pools => View::Pools,
    };
    let options = Options { view, namespace, filter, has_color: color_is_wanted() };
    if once {
        let columns = width.or_else(|| terminal_size::terminal_size().map(|(columns, _)| columns.0));
        print_line(baton_top::once(client, options, columns.unwrap_or(COLUMNS)).await?);
        return Ok(());
    }
    if !stdout().is_terminal() || !stdin().is_terminal() {
        return Err(Exit::usage(
            "`baton top` needs a terminal to draw on and to read keys from. In scripts and pipes use `baton top --once`, or the \
             lists of `baton queue list`, `baton run list` and `baton worker list` with -o json",
        ));
    }
    Ok(baton_top::top(client, options).await?)
}

impl From<Error> for Exit {
    fn from(error: Error) -> Exit {
        match error {
            Error::Server(error) => error.into(),
            Error::Old(..) => Exit::unreachable(error.to_string()),
            Error::Filter(why) => Exit::usage(format!("--filter: {why}")),
            Error::Terminal(_) => Exit::failed(error.to_string()),
        }
    }
}
