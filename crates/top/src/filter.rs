//! What people type after `/`.

use baton::{RunFilter, State};

use crate::ask::PAGE;

/// A filter that has been read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// What the server looks for, for lists of runs.
    pub runs: RunFilter,
    /// Words that a row has to contain. The server does not know them: they choose among the rows of the page.
    pub words: Vec<String>,
}

impl Filter {
    /// Reads a filter: words and tokens with spaces between. `worker` finds the identifier of a worker by its name.
    pub fn parse(text: &str, worker: impl Fn(&str) -> Option<String>) -> Result<Filter, String> {
        let mut filter = Filter::default();
        for part in text.split_whitespace() {
            let Some((name, value)) = part.split_once(':').filter(|(_, value)| !value.is_empty()) else {
                filter.words.push(part.to_lowercase());
                continue;
            };
            let own = value.to_owned();
            match name {
                "queue" => filter.runs.queue = Some(own),
                "type" => filter.runs.kind = Some(own),
                "key" => filter.runs.key = Some(own),
                "ns" | "namespace" => filter.runs.namespace = Some(own),
                "state" => filter.runs.states.extend(states(value)?),
                "worker" => {
                    let known = worker(value).or_else(|| is_id(value).then_some(own));
                    let Some(known) = known else { return Err(format!("no worker is called {value}")) };
                    filter.runs.worker = Some(known);
                }
                "id" => {
                    let digits: String = value.chars().filter(|c| !matches!(c, '-' | '…' | '~')).collect();
                    if !(4..=32).contains(&digits.len()) || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                        return Err("id: takes 4 to 32 hexadecimal digits".into());
                    }
                    // Lists show the end, and what somebody copied is all of it.
                    match digits.len() {
                        ..=12 => filter.runs.id_suffix = Some(digits),
                        _ => filter.runs.id_prefix = Some(digits),
                    }
                }
                _ => filter.words.push(part.to_lowercase()),
            }
        }
        Ok(filter)
    }

    /// Whether a row has all of the words.
    pub fn fits<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let row = parts.into_iter().map(str::to_lowercase).collect::<Vec<_>>().join("\n");
        self.words.iter().all(|word| row.contains(word.as_str()))
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 36 && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

fn states(word: &str) -> Result<Vec<State>, String> {
    word.split(',').map(of_word).collect::<Result<Vec<_>, _>>().map(|all| all.concat())
}

fn of_word(word: &str) -> Result<Vec<State>, String> {
    Ok(match word {
        "waiting" => vec![State::Pending],
        "starting" => vec![State::Assigned],
        "live" => vec![State::Pending, State::Assigned, State::Running, State::Sleeping],
        word => match State::ALL.into_iter().find(|state| state.as_str() == word) {
            Some(state) => vec![state],
            None => {
                return Err(format!(
                    "state: takes waiting, starting, running, sleeping, completed, failed, cancelled or live, not {word}"
                ));
            }
        },
    })
}

/// The part of the runs that is shown, chosen with one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tab {
    #[default]
    All,
    Running,
    Waiting,
    Sleeping,
    Failed,
    Completed,
    Cancelled,
}

impl Tab {
    pub const ALL: [Tab; 7] =
        [Tab::All, Tab::Running, Tab::Waiting, Tab::Sleeping, Tab::Failed, Tab::Completed, Tab::Cancelled];

    pub fn name(self) -> &'static str {
        match self {
            Tab::All => "all",
            Tab::Running => "running",
            Tab::Waiting => "waiting",
            Tab::Sleeping => "sleeping",
            Tab::Failed => "failed",
            Tab::Completed => "completed",
            Tab::Cancelled => "cancelled",
        }
    }

    pub fn states(self) -> Vec<State> {
        match self {
            Tab::All => vec![],
            Tab::Running => vec![State::Assigned, State::Running],
            Tab::Waiting => vec![State::Pending],
            Tab::Sleeping => vec![State::Sleeping],
            Tab::Failed => vec![State::Failed],
            Tab::Completed => vec![State::Completed],
            Tab::Cancelled => vec![State::Cancelled],
        }
    }

    /// The one after it, or before it, in a circle.
    pub fn turned(self, forward: bool) -> Tab {
        let all = Tab::ALL;
        let at = all.iter().position(|tab| *tab == self).unwrap_or(0);
        all[(at + if forward { 1 } else { all.len() - 1 }) % all.len()]
    }
}

/// What the server is asked for: the filter, in the states of the tab unless the filter names some.
pub fn runs_of(filter: &Filter, tab: Tab, namespace: Option<&str>, cursor: Option<&str>) -> RunFilter {
    let mut runs = filter.runs.clone();
    if runs.states.is_empty() {
        runs.states = tab.states();
    }
    runs.namespace = runs.namespace.or_else(|| namespace.map(str::to_owned));
    RunFilter { limit: Some(PAGE), cursor: cursor.map(str::to_owned), ..runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Filter, String> {
        Filter::parse(text, |name| (name == "orders-3").then(|| "w3".to_owned()))
    }

    #[test]
    fn tokens_go_to_the_server_and_words_choose_among_rows() {
        let filter = parse(" queue:mail state:waiting,failed  Digest key:a:b worker:orders-3 ns:shop").unwrap();
        let runs = RunFilter {
            queue: Some("mail".into()),
            states: vec![State::Pending, State::Failed],
            key: Some("a:b".into()),
            worker: Some("w3".into()),
            namespace: Some("shop".into()),
            ..RunFilter::default()
        };
        assert_eq!(filter, Filter { runs, words: vec!["digest".into()] });
        assert!(filter.fits(["x", "Daily-DIGEST"]) && !filter.fits(["x"]));
        assert_eq!(parse("unknown:token queue:").unwrap().words, ["unknown:token", "queue:"]);
    }

    #[test]
    fn identifiers_are_found_by_their_end_or_their_beginning() {
        let id = "0199a3c4-1111-7222-8333-0c2be9d1aa01";
        assert_eq!(parse("id:…e9d1aa").unwrap().runs.id_suffix.as_deref(), Some("e9d1aa"));
        assert_eq!(
            parse(&format!("id:{id}")).unwrap().runs.id_prefix.as_deref(),
            Some("0199a3c41111722283330c2be9d1aa01")
        );
        assert_eq!(parse(&format!("worker:{id}")).unwrap().runs.worker.as_deref(), Some(id));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        let table = [
            ("state:broken", "not broken"),
            ("id:xyz1", "hexadecimal"),
            ("id:abc", "hexadecimal"),
            ("worker:nobody", "no worker is called nobody"),
        ];
        for (text, said) in table {
            assert!(parse(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn the_tab_gives_way_to_states_of_the_filter() {
        let states = |text: &str, tab| runs_of(&parse(text).unwrap(), tab, None, None).states;
        assert_eq!(states("", Tab::Waiting), [State::Pending]);
        assert_eq!(states("state:failed", Tab::Waiting), [State::Failed]);
        assert!(states("", Tab::All).is_empty());
        assert_eq!(runs_of(&parse("ns:b").unwrap(), Tab::All, Some("a"), None).namespace.as_deref(), Some("b"));
        assert_eq!((Tab::All.turned(true), Tab::All.turned(false)), (Tab::Running, Tab::Cancelled));
    }
}
