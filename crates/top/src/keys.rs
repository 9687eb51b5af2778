//! What keys do.

use baton_core::Millis;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::{Action, App, Details, Facts, Mode, Mood, Pane, Place, Subject, View};
use crate::filter::{Filter, Tab};
use crate::rows;
use crate::text::{cut, short_id, visible};

/// What the loop has to do after a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Nothing but to draw.
    Draw,
    Quit,
    /// Stop, as Ctrl-Z says.
    Suspend,
    /// Redraw everything.
    Redraw,
    /// Ask the server now.
    Refresh,
    Act(Action),
}

/// An action and the question before it, or why there is none.
type Asked = Result<(Action, String), String>;

/// Longest filter that can be typed.
const FILTER_CHARS_MAX: usize = 200;
/// Columns of a name in a question.
const NAME_COLUMNS: usize = 30;

impl App {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent, now: Millis) -> Command {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Command::Quit,
                KeyCode::Char('z') => return Command::Suspend,
                KeyCode::Char('l') => return Command::Redraw,
                _ => {}
            }
        }
        match self.mode.clone() {
            Mode::Normal => self.normal(key, now),
            Mode::Filter { before } => self.typed(key, &before, now),
            Mode::Confirm { action, .. } => self.answered(key, action, now),
            Mode::Help => {
                self.mode = Mode::Normal;
                Command::Draw
            }
        }
    }

    fn normal(&mut self, key: KeyEvent, now: Millis) -> Command {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') => return Command::Quit,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char(digit @ '1'..='4') => self.show(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => self.show(View::ALL[(self.view as usize + 1) % 4]),
            KeyCode::BackTab => self.show(View::ALL[(self.view as usize + 3) % 4]),
            KeyCode::Char('/') if self.open().is_none() => {
                self.mode = Mode::Filter { before: self.filter_text().to_owned() };
            }
            KeyCode::Char('R') => return Command::Refresh,
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::Char('f') if control => return self.page(1),
            KeyCode::Char('b') if control => return self.page(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => return self.page(1),
            KeyCode::PageUp => return self.page(-1),
            KeyCode::Char('g') | KeyCode::Home => return self.first(),
            KeyCode::Char('G') | KeyCode::End => self.step(isize::MAX),
            KeyCode::Char('n') => return self.next_page(now),
            KeyCode::Char('N') => return self.previous_page(),
            KeyCode::Char('s') if self.is_list(View::Runs) => self.turn(true),
            KeyCode::Char('S') if self.is_list(View::Runs) => self.turn(false),
            KeyCode::Enter | KeyCode::Right => self.enter(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.back(),
            KeyCode::Char('l') => self.log(now),
            KeyCode::Char('c') => self.ask(Self::cancel, now),
            KeyCode::Char('r') => self.ask(Self::retry, now),
            KeyCode::Char('d') => self.ask(Self::drain, now),
            KeyCode::Char('p') => self.ask(Self::pause, now),
            _ => {}
        }
        Command::Draw
    }

    fn is_list(&self, view: View) -> bool {
        self.open().is_none() && self.view == view
    }

    /// Shows a list.
    pub fn show(&mut self, view: View) {
        self.close_all();
        self.view = view;
        rows::keep_place(self);
    }

    fn close_all(&mut self) {
        self.details.clear();
        self.facts.about = Default::default();
    }

    /// Moves by rows of the list, or by lines of the details.
    fn step(&mut self, by: isize) {
        let height = self.rows_shown.max(1);
        if let Some(details) = self.details.last_mut() {
            let most = self.lines.saturating_sub(height);
            details.scroll = details.scroll.saturating_add_signed(by).min(most);
            self.follows = details.scroll == most;
            return;
        }
        let subjects = rows::subjects(self);
        let last = subjects.len().saturating_sub(1);
        let place = self.place_mut();
        place.row = place.row.saturating_add_signed(by).min(last);
        place.subject = subjects.get(place.row).cloned();
        self.facts.chosen = None;
    }

    fn page(&mut self, pages: isize) -> Command {
        self.step(pages * (self.rows_shown.max(2) - 1) as isize);
        Command::Draw
    }

    fn first(&mut self) -> Command {
        self.step(isize::MIN);
        Command::Draw
    }

    /// The runs after those of this page.
    fn next_page(&mut self, now: Millis) -> Command {
        if !self.is_list(View::Runs) {
            return Command::Draw;
        }
        match self.facts.next.clone() {
            Some(cursor) => {
                self.pages.push(cursor);
                self.forget_runs();
                Command::Refresh
            }
            None => {
                self.say(Mood::Note, "These are the last runs.", now);
                Command::Draw
            }
        }
    }

    fn previous_page(&mut self) -> Command {
        if !self.is_list(View::Runs) || self.pages.pop().is_none() {
            return Command::Draw;
        }
        self.forget_runs();
        Command::Refresh
    }

    /// Other runs are wanted now: those that are shown would be taken for them.
    fn forget_runs(&mut self) {
        self.facts = Facts { runs: None, next: None, chosen: None, ..std::mem::take(&mut self.facts) };
        self.places[View::Runs as usize] = Place::default();
    }

    fn turn(&mut self, forward: bool) {
        self.set_tab(self.tab.turned(forward));
    }

    /// Shows the runs of this tab.
    pub fn set_tab(&mut self, tab: Tab) {
        self.tab = tab;
        self.pages.clear();
        self.forget_runs();
    }

    fn enter(&mut self) {
        if let Some(details) = self.open() {
            // The runs of a queue or of a worker are one Enter further.
            let filter = match &details.subject {
                Subject::Queue(queue) => format!("queue:{} ns:{}", queue.name, queue.namespace),
                Subject::Worker(id) => format!("worker:{id}"),
                Subject::Run(_) | Subject::Pool(_) => return,
            };
            self.filters[View::Runs as usize] = filter;
            self.pages.clear();
            self.forget_runs();
            self.show(View::Runs);
            return;
        }
        if let Some(subject) = self.subject() {
            self.place_mut().subject = Some(subject.clone());
            self.facts.about = Default::default();
            self.details.push(Details { subject, scroll: 0, pane: Pane::Facts });
        }
    }

    fn back(&mut self) {
        if let Some(details) = self.details.last_mut() {
            match details.pane {
                Pane::Log => (details.pane, details.scroll) = (Pane::Facts, 0),
                Pane::Facts => self.close_all(),
            }
        } else if !self.filter_text().is_empty() {
            self.filter_text_mut().clear();
            self.filter_has_changed();
        } else if self.said.take().is_none() && self.view == View::Runs && self.tab != Tab::All {
            self.set_tab(Tab::All);
        }
    }

    fn log(&mut self, now: Millis) {
        match self.subject() {
            Some(Subject::Run(_)) => {
                if self.open().is_none() {
                    self.enter();
                }
                self.follows = true;
                if let Some(details) = self.details.last_mut() {
                    details.pane = Pane::Log;
                    details.scroll = 0;
                }
            }
            Some(_) => self.say(Mood::Note, "Only runs have a log: choose one in the list of runs.", now),
            None => {}
        }
    }

    /// Opens the question of an action, or says why there is none.
    fn ask(&mut self, action: fn(&App, &Subject) -> Asked, now: Millis) {
        let Some(subject) = self.subject() else { return };
        match action(self, &subject) {
            Ok((action, question)) => match self.refusal(&action) {
                Some(why) => self.say(Mood::Bad, why, now),
                None => self.mode = Mode::Confirm { action, question },
            },
            Err(why) => self.say(Mood::Note, why, now),
        }
    }

    /// Why this key may not do that, if it may not.
    fn refusal(&self, action: &Action) -> Option<String> {
        let scopes = &self.server.scopes;
        let scope = action.scope();
        // A key that nothing is known of is left to the server.
        if scopes.is_empty() || scopes.iter().any(|has| has == scope || has == "admin") {
            return None;
        }
        let (verb, has) = (action.verb(), scopes.join(", "));
        Some(format!("This key may not {verb}: that needs the scope {scope}, and it has {has}."))
    }

    fn cancel(&self, subject: &Subject) -> Asked {
        let Subject::Run(id) = subject else { return Err("Only runs can be cancelled.".into()) };
        match self.run(id) {
            Some(run) if run.state.is_ended() => {
                Err(format!("The run {} has ended: it is {}.", short_id(id), rows::state_word(run)))
            }
            Some(run) if run.cancel_by.is_some() => Err("Its worker has already been told to stop.".into()),
            Some(run) => {
                Ok((Action::Cancel(id.clone()), format!("Cancel the run {} ({})?", short_id(id), named(&run.kind))))
            }
            None => Ok((Action::Cancel(id.clone()), format!("Cancel the run {}?", short_id(id)))),
        }
    }

    fn retry(&self, subject: &Subject) -> Asked {
        let Subject::Run(id) = subject else { return Err("Only runs can be retried.".into()) };
        match self.run(id) {
            Some(run) if !run.state.is_ended() => {
                Err(format!("Only runs that have ended can be retried; {} is {}.", short_id(id), rows::state_word(run)))
            }
            _ => Ok((Action::Retry(id.clone()), format!("Submit the run {} again, as a new run?", short_id(id)))),
        }
    }

    fn drain(&self, subject: &Subject) -> Asked {
        let Subject::Worker(id) = subject else { return Err("Only workers can be drained: press 3 for them.".into()) };
        let worker = self.facts.worker(id).or(self.facts.about.worker.as_ref());
        let name = worker.map_or_else(|| short_id(id), |worker| named(&worker.name));
        match worker.map(|worker| (worker.status.as_str(), worker.active)) {
            Some(("OFFLINE", _)) => Err(format!("{name} is offline: there is nothing to drain.")),
            Some(("DRAINING", active)) => Err(format!("{name} drains already, with {active} runs to finish.")),
            found => {
                let active = found.map_or(0, |(_, active)| active);
                let rest =
                    if active == 0 { "it holds nothing".into() } else { format!("it finishes {active} runs first") };
                let question = format!("Drain {name}, so that it takes no new work and goes ({rest})?");
                Ok((Action::Drain { id: id.clone(), name }, question))
            }
        }
    }

    fn pause(&self, subject: &Subject) -> Asked {
        let Subject::Queue(queue) = subject else { return Err("Only queues can be paused: press 1 for them.".into()) };
        let is_paused = self
            .facts
            .queues
            .iter()
            .flatten()
            .any(|known| known.name == queue.name && known.namespace == queue.namespace && known.paused);
        let name = named(&queue.name);
        Ok(match is_paused {
            true => {
                (Action::Resume(queue.clone()), format!("Resume the queue {name}, so that it hands out runs again?"))
            }
            false => (
                Action::Pause(queue.clone()),
                format!("Pause the queue {name}, until somebody resumes it? What is held goes on."),
            ),
        })
    }

    fn answered(&mut self, key: KeyEvent, action: Action, now: Millis) -> Command {
        match key.code {
            KeyCode::Char('y' | 'Y') => {
                self.mode = Mode::Normal;
                Command::Act(action)
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {
                self.mode = Mode::Normal;
                self.say(Mood::Note, "Nothing was changed.", now);
                Command::Draw
            }
            // Anything else is no answer to a question of this weight, Enter least of all.
            _ => Command::Draw,
        }
    }

    fn typed(&mut self, key: KeyEvent, before: &str, now: Millis) -> Command {
        match key.code {
            KeyCode::Enter => {
                match self.filter() {
                    Ok(_) => {
                        self.mode = Mode::Normal;
                        self.said = None;
                    }
                    Err(why) => self.say(Mood::Bad, why, now),
                }
                return Command::Draw;
            }
            KeyCode::Esc => {
                self.mode = Mode::Normal;
                self.said = None;
                before.clone_into(self.filter_text_mut());
            }
            KeyCode::Backspace => _ = self.filter_text_mut().pop(),
            KeyCode::Char('u' | 'w') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                let is_word = key.code == KeyCode::Char('w');
                let text = self.filter_text_mut();
                let rest = if is_word { text.trim_end().rfind(' ').map_or(0, |at| at + 1) } else { 0 };
                text.truncate(rest);
            }
            KeyCode::Char(letter) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                self.type_text(letter.encode_utf8(&mut [0; 4]));
                return Command::Draw;
            }
            _ => return Command::Draw,
        }
        self.filter_has_changed();
        Command::Draw
    }

    /// Adds what was typed or pasted into the filter.
    pub fn type_text(&mut self, text: &str) {
        if !matches!(self.mode, Mode::Filter { .. }) {
            return;
        }
        let filter = self.filter_text_mut();
        let room = FILTER_CHARS_MAX.saturating_sub(filter.chars().count());
        filter.extend(
            text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !c.is_control()).take(room),
        );
        self.filter_has_changed();
    }

    fn filter_has_changed(&mut self) {
        let is_other = match (self.view, self.wanted_runs()) {
            (View::Runs, Some(wanted)) => self.facts.runs.as_ref().is_some_and(|(filter, _)| *filter != wanted),
            _ => false,
        };
        if is_other {
            self.pages.clear();
            self.forget_runs();
        }
        *self.place_mut() = Place::default();
    }

    /// Sets the filter of the list that is shown, as the command line does.
    pub fn set_filter(&mut self, text: &str) -> Result<(), String> {
        // Workers are not known yet, and their names are looked up once they are.
        Filter::parse(text, |_| Some(String::new()))?;
        text.clone_into(self.filter_text_mut());
        Ok(())
    }
}

fn named(name: &str) -> String {
    cut(&visible(name), NAME_COLUMNS)
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
