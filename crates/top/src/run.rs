//! The loop: keys and answers in, frames out.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use baton::proto::{PauseQueue, Whoami};
use baton::{Client, ClientError};
use baton_core::Millis;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt;
use jiff::tz::TimeZone;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::app::{Action, App, Server, View};
use crate::ask::Ask;
use crate::draw::{self, Look};
use crate::keys::Command;
use crate::poll::{News, Wants, poll};
use crate::style::Theme;
use crate::terminal::{Screen, Taken};
use crate::text::{cut, short_id, visible};

/// How often times on the screen move on.
const TICK: Duration = Duration::from_millis(250);
/// How long one call may take before the server counts as away.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stop may take to come after it was asked for.
const SUSPENDS_WITHIN: Duration = Duration::from_millis(500);
/// Clocks that differ by less agree, as far as their seconds tell.
const CLOCKS_AGREE: Millis = 1_500;
/// Answers that wait to be drawn.
const NEWS_MAX: usize = 16;

/// What is shown, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The list that is shown first.
    pub view: View,
    /// The only namespace that is shown; all the key is good for if not given.
    pub namespace: Option<String>,
    /// The filter of that list, as it would be typed.
    pub filter: String,
    /// Whether there are colours.
    pub has_color: bool,
}

/// Why the dashboard could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Server(#[from] ClientError),
    /// The server does not know what this program asks.
    #[error(
        "the server at {0} is too old for `baton top`: it does not know {1}. Use the `baton` that came with it, or update the server"
    )]
    Old(String, &'static str),
    /// The filter cannot be read.
    #[error("{0}")]
    Filter(String),
    /// The terminal does not work as one.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// Asks who we are, which also says whether there is a server that lets us in.
async fn begin(client: &Client, options: &Options) -> Result<App, Error> {
    let who = match client.whoami().await {
        Ok(who) => who,
        Err(ClientError::Refused { status: 404, .. }) => {
            return Err(Error::Old(client.url().to_owned(), "/api/v1/whoami"));
        }
        Err(error) => return Err(error.into()),
    };
    let Whoami { name, scopes, namespace, .. } = who;
    let server = Server {
        url: client.url().to_owned(),
        // A proxy that lets no gRPC through is no reason to show nothing.
        version: client.server_version().await.ok(),
        key: name,
        scopes,
        namespace: options.namespace.clone().or(namespace),
    };
    let mut app = App::new(server, options.view);
    app.set_filter(&options.filter).map_err(Error::Filter)?;
    app.ahead = ahead(client).await;
    Ok(app)
}

/// How far the server's clock is ahead of ours. Less than what its answers can tell is nothing.
async fn ahead(client: &Client) -> Millis {
    let before = crate::clock();
    let Ok(Some(date)) = client.server_clock().await else { return 0 };
    let server = date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis);
    // It was written somewhere in between, and anywhere in its second.
    let ahead = server + 500 - (before + crate::clock()) / 2;
    if ahead.abs() > CLOCKS_AGREE { ahead } else { 0 }
}

/// One frame of a list as plain text.
pub async fn once(client: Client, options: Options, columns: u16) -> Result<String, Error> {
    let client = client.with_timeout(CALL_TIMEOUT);
    let mut app = begin(&client, &options).await?;
    let namespace = app.server.namespace.clone();
    let mut asked: Vec<Ask> = Vec::new();
    app.rows_shown = usize::MAX / 2;
    // What is wanted grows with what is known: reasons are asked for once the runs are there.
    for _ in 0..3 {
        for ask in app.wants(crate::clock() + app.ahead) {
            if asked.contains(&ask) {
                continue;
            }
            let now = crate::clock() + app.ahead;
            let answer = ask.send(&client, namespace.as_deref(), now).await;
            if let Err(error) = &answer
                && error.is_transient()
            {
                return Err(error.clone().into());
            }
            asked.push(ask.clone());
            app.take(ask, answer, now);
        }
    }
    let theme = Theme::of_environment(false);
    let zone = TimeZone::system();
    let look = Look { theme, zone: &zone, now: crate::clock() + app.ahead };
    Ok(draw::plain(&mut app, columns, look))
}

/// Shows the dashboard until somebody leaves.
pub async fn top(client: Client, options: Options) -> Result<(), Error> {
    let client = client.with_timeout(CALL_TIMEOUT);
    let app = begin(&client, &options).await?;
    let (wants, wanted) = watch::channel(Wants::default());
    let (sender, news) = mpsc::channel(NEWS_MAX);
    let poller = tokio::spawn(poll(client.clone(), wanted, sender));
    let theme = Theme::of_environment(options.has_color);
    let taken = Taken::take()?;
    let shown = Loop { client, app, theme, zone: TimeZone::system(), wants, urgent: 0 }.show(news).await;
    drop(taken);
    poller.abort();
    Ok(shown?)
}

struct Loop {
    client: Client,
    app: App,
    theme: Theme,
    zone: TimeZone,
    wants: watch::Sender<Wants>,
    urgent: u64,
}

impl Loop {
    /// The server's clock.
    fn now(&self) -> Millis {
        crate::clock() + self.app.ahead
    }

    async fn show(mut self, mut news: mpsc::Receiver<News>) -> io::Result<()> {
        let mut screen = Taken::screen()?;
        let mut keys = EventStream::new();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut resumed = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        let (sender, mut outcomes) = mpsc::channel(NEWS_MAX);
        loop {
            self.draw(&mut screen)?;
            self.want();
            tokio::select! {
                _ = tick.tick() => {}
                event = keys.next() => match event {
                    Some(Ok(event)) => match self.event(event) {
                        Command::Draw => {}
                        Command::Quit => return Ok(()),
                        Command::Suspend => {
                            Taken::suspend()?;
                            // A job that nobody can continue is not stopped at all.
                            let _ = timeout(SUSPENDS_WITHIN, resumed.recv()).await;
                            screen = Taken::retake()?;
                        }
                        Command::Redraw => Taken::redraw(&mut screen)?,
                        Command::Refresh => self.urgent += 1,
                        Command::Act(action) => {
                            let (client, sender) = (self.client.clone(), sender.clone());
                            tokio::spawn(async move { sender.send(act(&client, action).await).await });
                        }
                    },
                    // The terminal is gone.
                    Some(Err(_)) | None => return Ok(()),
                },
                Some(said) = news.recv() => {
                    self.take(said);
                    // Whatever else has come is drawn with it.
                    while let Ok(said) = news.try_recv() {
                        self.take(said);
                    }
                }
                Some(outcome) = outcomes.recv() => {
                    let now = self.now();
                    self.app.done(outcome, now);
                    self.urgent += 1;
                }
                _ = terminate.recv() => return Ok(()),
                _ = hangup.recv() => return Ok(()),
                _ = interrupt.recv() => return Ok(()),
                // Somebody stopped us from outside, and the shell has set up the terminal for itself meanwhile.
                _ = resumed.recv() => screen = Taken::retake()?,
            }
        }
    }

    fn draw(&mut self, screen: &mut Screen) -> io::Result<()> {
        let look = Look { theme: self.theme, zone: &self.zone, now: self.now() };
        screen.draw(|frame| draw::draw(&mut self.app, frame.buffer_mut(), look))?;
        Ok(())
    }

    fn want(&self) {
        let wants = Wants {
            asks: self.app.wants(self.now()),
            urgent: self.urgent,
            namespace: self.app.server.namespace.clone(),
            ahead: self.app.ahead,
        };
        self.wants.send_if_modified(|before| {
            let is_other = *before != wants;
            *before = wants;
            is_other
        });
    }

    fn event(&mut self, event: Event) -> Command {
        let now = self.now();
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.key(key, now),
            Event::Paste(text) => {
                self.app.type_text(&text);
                Command::Draw
            }
            // Drawing looks at the size by itself.
            Event::Resize(..) | Event::Key(_) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {
                Command::Draw
            }
        }
    }

    fn take(&mut self, news: News) {
        let now = self.now();
        match news {
            News::Answer(ask, answer) => self.app.take(ask, answer, now),
            News::Lost(error, pause) => self.app.lost(&error, now, pause.as_millis() as Millis),
        }
    }
}

/// Does what somebody has said yes to, and says what came of it.
async fn act(client: &Client, action: Action) -> Result<String, ClientError> {
    let name = |name: &str| cut(&visible(name), 40);
    Ok(match action {
        Action::Cancel(id) => {
            let run = client.cancel(&id).await?;
            match run.cancelling {
                true => format!("The worker of {} has been told to stop.", short_id(&id)),
                false => format!("The run {} is {}.", short_id(&id), run.state.as_str()),
            }
        }
        Action::Retry(id) => {
            let run = client.retry(&id).await?;
            format!("The run {} was submitted again, as {}.", short_id(&id), short_id(&run.id))
        }
        Action::Drain { id, name } => {
            let worker = client.drain(&id).await?;
            format!(
                "{name} takes no new work; {} to finish.",
                crate::text::counted(worker.active.into(), "run", "runs")
            )
        }
        Action::Pause(queue) => {
            client.pause_queue(&queue.namespace, &queue.name, &PauseQueue::default()).await?;
            format!("The queue {} is paused.", name(&queue.name))
        }
        Action::Resume(queue) => {
            client.resume_queue(&queue.namespace, &queue.name).await?;
            format!("The queue {} is open again.", name(&queue.name))
        }
    })
}
