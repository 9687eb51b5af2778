//! The language of filters: words and tokens with a space between, as `state:waiting key:order-204* error:"no answer"`.
//! What is written is read again; what makes no sense gives a sentence.

use std::fmt;

use baton_core::did_you_mean::near;
use baton_core::{Millis, Reason};
use baton_server::service::lists::{KeyMatch, ListFilter, ListedKind, Phase};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Longest filter that is read, in bytes.
const FILTER_BYTES_MAX: usize = 1_000;
/// Most tokens that are read.
const TOKENS_MAX: usize = 20;
/// The names of tokens.
const NAMES: [&str; 10] = ["state", "queue", "type", "worker", "key", "why", "error", "reason", "since", "kind"];
/// Reasons that runs are searched by: those that hold for all runs of a type, and the one that is a moment.
const WHYS: [&str; 6] = ["no_worker", "all_busy", "queue_paused", "namespace_disabled", "rate_limit", "due_later"];

/// One token of a filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// A state, as people call it.
    State(States),
    /// A queue.
    Queue(String),
    /// A type, or the beginning of one with `*` behind it.
    Type(String),
    /// A worker's name or identifier.
    Worker(String),
    /// A key, or the beginning of one with `*` behind it.
    Key(String),
    /// Why it waits.
    Why(String),
    /// A part of the message of its end.
    Error(String),
    /// Why it ended.
    Reason(Reason),
    /// How long ago, or the moment, as it was written.
    Since(String),
    /// What it is.
    Kind(ListedKind),
    /// Whatever is none of these.
    Words(String),
}

/// States that people call by one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum States {
    /// Waiting for a worker.
    Waiting,
    /// Due later.
    Later,
    /// With a worker, begun or not.
    Running,
    /// Sleeping.
    Sleeping,
    /// Failed.
    Failed,
    /// Completed.
    Completed,
    /// Cancelled.
    Cancelled,
}

impl States {
    /// All of them, in the order of tabs.
    pub const ALL: [States; 7] = [
        States::Waiting,
        States::Later,
        States::Running,
        States::Sleeping,
        States::Failed,
        States::Completed,
        States::Cancelled,
    ];

    /// Its word in addresses and filters.
    pub fn word(self) -> &'static str {
        match self {
            States::Waiting => "waiting",
            States::Later => "later",
            States::Running => "running",
            States::Sleeping => "sleeping",
            States::Failed => "failed",
            States::Completed => "completed",
            States::Cancelled => "cancelled",
        }
    }

    /// Its word for people.
    pub fn shown(self) -> &'static str {
        match self {
            States::Later => "due later",
            other => other.word(),
        }
    }

    /// The states with this word.
    pub fn parse(word: &str) -> Option<States> {
        match word {
            "pending" => Some(States::Waiting),
            "due_later" => Some(States::Later),
            "starting" | "cancelling" | "assigned" => Some(States::Running),
            word => States::ALL.into_iter().find(|states| states.word() == word),
        }
    }

    /// What they are made of.
    pub fn phases(self) -> &'static [Phase] {
        match self {
            States::Waiting => &[Phase::Waiting],
            States::Later => &[Phase::Later],
            States::Running => &[Phase::Starting, Phase::Running, Phase::Cancelling],
            States::Sleeping => &[Phase::Sleeping],
            States::Failed => &[Phase::Failed],
            States::Completed => &[Phase::Completed],
            States::Cancelled => &[Phase::Cancelled],
        }
    }
}

/// The word of a kind.
pub fn kind_word(kind: ListedKind) -> &'static str {
    match kind {
        ListedKind::Run => "run",
        ListedKind::Build => "build",
        ListedKind::Workflow => "workflow",
    }
}

/// The kind with this word.
pub fn kind_of(word: &str) -> Option<ListedKind> {
    [ListedKind::Run, ListedKind::Build, ListedKind::Workflow].into_iter().find(|kind| kind_word(*kind) == word)
}

/// A filter that was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// What makes sense.
    pub tokens: Vec<Token>,
    /// Sentences about what does not.
    pub wrong: Vec<String>,
}

impl Filter {
    /// Reads a filter.
    pub fn parse(text: &str) -> Filter {
        let mut filter = Filter::default();
        let mut words: Vec<String> = Vec::new();
        let cut =
            text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= FILTER_BYTES_MAX).last();
        let text = &text[..cut.unwrap_or(0)];
        for piece in pieces(text).into_iter().take(TOKENS_MAX) {
            match token(&piece) {
                Ok(Token::Words(word)) => words.push(word),
                Ok(token) => filter.tokens.push(token),
                Err(sentence) => filter.wrong.push(sentence),
            }
        }
        let words = words.iter().flat_map(|words| words.split_whitespace()).collect::<Vec<_>>().join(" ");
        if !words.is_empty() {
            filter.tokens.push(Token::Words(words));
        }
        filter
    }

    /// The words that are looked for everywhere.
    pub fn words(&self) -> Option<&str> {
        self.tokens.iter().find_map(|token| match token {
            Token::Words(words) => Some(words.as_str()),
            _ => None,
        })
    }

    /// The same without a token.
    pub fn without(&self, index: usize) -> Filter {
        let tokens = self.tokens.iter().enumerate().filter(|(own, _)| *own != index).map(|(_, token)| token.clone());
        Filter { tokens: tokens.collect(), wrong: Vec::new() }
    }

    /// Puts it into a filter of the service. Of tokens that can only be there once, the last one counts.
    pub fn fill(&self, filter: &mut ListFilter, now: Millis, zone: &TimeZone) {
        for token in &self.tokens {
            match token {
                Token::State(states) => filter.phases.extend(states.phases()),
                Token::Queue(queue) => filter.queues.push(queue.clone()),
                Token::Type(kind) => filter.types.push(kind.clone()),
                Token::Worker(worker) => filter.workers.push(worker.clone()),
                Token::Key(key) => {
                    filter.key = Some(match key.strip_suffix('*') {
                        Some(prefix) => KeyMatch::Prefix(prefix.to_owned()),
                        None => KeyMatch::Exactly(key.clone()),
                    });
                }
                Token::Why(why) => filter.why = Some(why.clone()),
                Token::Error(error) => filter.error = Some(error.clone()),
                Token::Reason(reason) => filter.reason = Some(*reason),
                Token::Since(since) => filter.since = moment(since, now, zone).or(filter.since),
                Token::Kind(kind) => filter.kind = Some(*kind),
                Token::Words(_) => {}
            }
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, token) in self.tokens.iter().enumerate() {
            let parted = if index > 0 { " " } else { "" };
            write!(f, "{parted}{token}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::State(states) => write!(f, "state:{}", states.word()),
            Token::Queue(queue) => write!(f, "queue:{}", quoted(queue)),
            Token::Type(kind) => write!(f, "type:{}", quoted(kind)),
            Token::Worker(worker) => write!(f, "worker:{}", quoted(worker)),
            Token::Key(key) => write!(f, "key:{}", quoted(key)),
            Token::Why(why) => write!(f, "why:{why}"),
            Token::Error(error) => write!(f, "error:{}", quoted(error)),
            Token::Reason(reason) => write!(f, "reason:{}", reason.as_str()),
            Token::Since(since) => write!(f, "since:{since}"),
            Token::Kind(kind) => write!(f, "kind:{}", kind_word(*kind)),
            Token::Words(words) => match words.contains([':', '"', '\\', '=']) {
                true => f.write_str(&in_quotes(words)),
                false => f.write_str(words),
            },
        }
    }
}

fn quoted(value: &str) -> String {
    match value.is_empty() || value.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') {
        true => in_quotes(value),
        false => value.to_owned(),
    }
}

fn in_quotes(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A piece between spaces: what stands before the first quotation mark, and all of it without the marks.
struct Piece {
    plain: String,
    text: String,
}

fn pieces(text: &str) -> Vec<Piece> {
    let (mut all, mut rest) = (Vec::new(), text.chars().peekable());
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.peek().is_none() {
            return all;
        }
        let mut piece = Piece { plain: String::new(), text: String::new() };
        let (mut is_inside, mut was_inside) = (false, false);
        while let Some(c) = rest.next_if(|c| is_inside || !c.is_whitespace()) {
            match c {
                '"' => (is_inside, was_inside) = (!is_inside, true),
                '\\' if is_inside => piece.text.extend(rest.next()),
                c => {
                    piece.text.push(c);
                    if !was_inside {
                        piece.plain.push(c);
                    }
                }
            }
        }
        all.push(piece);
    }
}

fn token(piece: &Piece) -> Result<Token, String> {
    // A name stands before the first mark: `"a:b"` is a word.
    let Some(colon) = piece.plain.find(':') else {
        return match piece.plain.starts_with("label.") && piece.plain.contains('=') {
            true => Err("Runs have no labels. Their key says whose they are: key:order-204*.".into()),
            false => Ok(Token::Words(piece.text.clone())),
        };
    };
    let (name, value) = (&piece.text[..colon], piece.text[colon + 1..].to_owned());
    if !NAMES.contains(&name) {
        return match near(name, NAMES).first() {
            Some(meant) => Err(format!("There is no token {name}:. {meant}: is one.")),
            // Keys and messages may have a colon.
            None => Ok(Token::Words(piece.text.clone())),
        };
    }
    if value.is_empty() {
        return Err(format!("{name}: needs something behind it."));
    }
    let one_of = |words: &[&str]| format!("{name}:{value} makes no sense. It can be {}.", words.join(", "));
    match name {
        "state" => {
            let words = States::ALL.map(States::word);
            States::parse(&value.to_lowercase()).map(Token::State).ok_or_else(|| one_of(&words))
        }
        "queue" => Ok(Token::Queue(value)),
        "type" => Ok(Token::Type(value)),
        "worker" => Ok(Token::Worker(value)),
        "key" => Ok(Token::Key(value)),
        "why" if WHYS.contains(&value.as_str()) => Ok(Token::Why(value)),
        "why" => Err(one_of(&WHYS)),
        "error" => Ok(Token::Error(value)),
        "reason" => {
            let words = Reason::ALL.map(Reason::as_str);
            let found = Reason::ALL.into_iter().find(|reason| reason.as_str() == value);
            found.map(Token::Reason).ok_or_else(|| one_of(&words))
        }
        "since" if moment(&value, 0, &TimeZone::UTC).is_some() => Ok(Token::Since(value)),
        "since" => Err(format!("since:{value} is no time. 30m, 1h, 7d, 2026-11-14 and 2026-11-14T09:30 are.")),
        _ => kind_of(&value).map(Token::Kind).ok_or_else(|| one_of(&["run", "build", "workflow"])),
    }
}

/// The moment that a text means: so long ago, a day, or a time of day.
fn moment(text: &str, now: Millis, zone: &TimeZone) -> Option<Millis> {
    if text.contains(char::is_whitespace) {
        return None;
    }
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit_ms = match unit {
        "s" => Some(1_000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        "w" => Some(7 * 86_400_000),
        _ => None,
    };
    if let (Ok(count), Some(unit_ms)) = (digits.parse::<Millis>(), unit_ms) {
        return Some(now.saturating_sub(count.saturating_mul(unit_ms)).max(0));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_millisecond());
    }
    let at: DateTime = text.parse().ok()?;
    Some(at.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_filter_is_read() {
        let text = r#"state:waiting queue:mail type:digest* worker:orders-3 key:order-204* why:no_worker error:"no answer" reason:timeout since:1h kind:build ab12"#;
        let filter = Filter::parse(text);
        assert_eq!(filter.wrong, [""; 0]);
        assert_eq!(filter.tokens.len(), 11);
        assert_eq!(filter.to_string(), text);
        assert_eq!(filter.words(), Some("ab12"));
        let mut found = ListFilter::default();
        filter.fill(&mut found, 7_200_000, &TimeZone::UTC);
        assert_eq!(found.key, Some(KeyMatch::Prefix("order-204".into())));
        assert_eq!((found.since, found.error.as_deref()), (Some(3_600_000), Some("no answer")));
        assert_eq!(found.phases, [Phase::Waiting]);
    }

    #[test]
    fn words_are_one_phrase_and_may_have_colons() {
        assert_eq!(Filter::parse("no  answer").tokens, [Token::Words("no answer".into())]);
        assert_eq!(Filter::parse(r#""queue:mail""#).tokens, [Token::Words("queue:mail".into())]);
        assert_eq!(Filter::parse("order:17").tokens, [Token::Words("order:17".into())]);
        assert_eq!(Filter::parse(r#"queue:"a \"b\" \\""#).tokens, [Token::Queue(r#"a "b" \"#.into())]);
    }

    #[test]
    fn nonsense_gives_a_sentence() {
        for (text, said) in [
            ("sate:waiting", "state: is one"),
            ("state:wating", "waiting, later"),
            ("state:", "needs something"),
            ("label.team=shop", "no labels"),
            ("why:bored", "no_worker"),
            ("since:soon", "is no time"),
            ("since:2026-99-99", "is no time"),
            ("reason:bad", "timeout"),
            ("kind:job", "workflow"),
        ] {
            let filter = Filter::parse(text);
            assert!(filter.wrong.len() == 1 && filter.wrong[0].contains(said), "{text}: {filter:?}");
            assert_eq!(filter.tokens, []);
        }
    }

    #[test]
    fn moments_are_in_the_readers_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let at = |text: &str| moment(text, 1_000_000_000, &zone);
        assert_eq!(at("2026-11-14"), "2026-11-13T23:00:00Z".parse::<Timestamp>().ok().map(|at| at.as_millisecond()));
        assert_eq!(at("2026-11-14T09:30"), at("2026-11-14T08:30:00Z"));
        assert_eq!(at("5s"), Some(999_995_000));
        assert_eq!(at("999999999999999999d"), Some(0));
        assert_eq!((at(""), at("h"), at("1x")), (None, None, None));
    }

    fn tokens() -> impl Strategy<Value = Token> {
        let text = || "[^\0]{1,12}".prop_filter("not only space", |text: &String| !text.trim().is_empty());
        prop_oneof![
            prop::sample::select(States::ALL.to_vec()).prop_map(Token::State),
            text().prop_map(Token::Queue),
            text().prop_map(Token::Type),
            text().prop_map(Token::Worker),
            text().prop_map(Token::Key),
            text().prop_map(Token::Error),
            prop::sample::select(WHYS.to_vec()).prop_map(|why| Token::Why(why.into())),
            prop::sample::select(Reason::ALL.to_vec()).prop_map(Token::Reason),
            (1u32..99).prop_map(|hours| Token::Since(format!("{hours}h"))),
            Just(Token::Kind(ListedKind::Build)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(tokens in prop::collection::vec(tokens(), 0..6), words in "([a-z:\"\\\\=]{1,8}( [a-z:\"=]{1,5})?)?") {
            let words = (!words.is_empty()).then_some(Token::Words(words));
            let filter = Filter { tokens: tokens.into_iter().chain(words).collect(), wrong: vec![] };
            prop_assert_eq!(Filter::parse(&filter.to_string()), filter);
        }

        #[test]
        fn whatever_is_typed_is_read(text in any::<String>()) {
            let filter = Filter::parse(&text);
            let again = Filter::parse(&filter.to_string());
            prop_assert!(again.wrong.is_empty(), "{:?}", again);
            let mut found = ListFilter::default();
            filter.fill(&mut found, 0, &TimeZone::UTC);
        }
    }
}
