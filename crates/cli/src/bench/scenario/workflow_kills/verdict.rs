//! What has to be true of every workflow afterwards.

use std::collections::HashMap;

use baton::{State, StepKind, StepState};

use super::three_steps::{Made, STEPS, result_of, value_of};

/// A workflow as the server shows it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The run.
    pub run: String,
    /// What it was started with.
    pub id: u64,
    /// How it ended.
    pub state: State,
    /// How many workers it lost.
    pub losses: u32,
    /// What it returned.
    pub output: Option<u64>,
    /// What is remembered, in order.
    pub memory: Vec<Remembered>,
}

/// Something that is remembered of a workflow.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// What kind of thing.
    pub kind: StepKind,
    /// Its name.
    pub name: String,
    /// How far it is.
    pub state: StepState,
    /// What it returned, if that can be read.
    pub made: Option<Made>,
}

/// What the executions of steps have left, by run.
#[derive(Debug, Default)]
pub struct Effects(HashMap<String, Vec<(usize, u64)>>);

impl Effects {
    /// Reads the lines that executions left, all of which are whole.
    pub fn read(text: &str) -> Result<Effects, String> {
        let mut effects = Effects::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let read = |words: &mut std::str::Split<'_, char>| {
                let run = words.next()?.to_owned();
                let step = words.next()?.parse().ok()?;
                Some((run, step, u64::from_str_radix(words.next()?, 16).ok()?))
            };
            let (run, step, token) = read(&mut words).ok_or_else(|| format!("a torn line among effects: {line:?}"))?;
            effects.0.entry(run).or_default().push((step, token));
        }
        Ok(effects)
    }

    /// How many executions there were.
    pub fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    fn of(&self, run: &str) -> &[(usize, u64)] {
        self.0.get(run).map_or(&[], Vec::as_slice)
    }
}

/// What is wrong with a workflow; nothing when all is well.
pub fn judge(shown: &Shown, effects: &Effects) -> Vec<String> {
    if shown.state != State::Completed {
        return vec![format!("is {} and not completed", shown.state.as_str())];
    }
    let mut wrong = Vec::new();
    let steps: Vec<&Remembered> = shown.memory.iter().filter(|entry| entry.kind == StepKind::Step).collect();
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    if names != STEPS {
        wrong.push(format!("remembers the steps {names:?}"));
    }
    let executed = effects.of(&shown.run);
    let mut before = Made { value: shown.id, token: 0 };
    for (index, step) in steps.into_iter().enumerate() {
        let Some(made) = step.made.filter(|_| step.state == StepState::Completed) else {
            wrong.push(format!("remembers no output of the step {}", step.name));
            continue;
        };
        if made.value != value_of(index, before.handed_on()) {
            wrong.push(format!("the step {} began with something else than the one before it returned", step.name));
        }
        if !executed.contains(&(index, made.token)) {
            wrong.push(format!("nobody executed what is remembered of the step {}", step.name));
        }
        before = made;
    }
    if shown.output != Some(result_of(before)) {
        wrong.push(format!("returned {:?}, and not what follows from its steps", shown.output));
    }
    // A workflow has one step under way at a time, so each worker that it lost explains one execution too many.
    let again = executed.len().saturating_sub(STEPS.len());
    if again > shown.losses as usize {
        wrong.push(format!("steps were executed {again} times too often, with {} workers lost", shown.losses));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::three_steps::effect;
    use super::*;

    fn remembered(name: &str, made: Made) -> Remembered {
        Remembered { kind: StepKind::Step, name: name.into(), state: StepState::Completed, made: Some(made) }
    }

    /// A workflow as it should be, and the lines of its executions.
    fn good() -> (Shown, String) {
        let (mut before, mut memory, mut lines) = (Made { value: 7, token: 0 }, Vec::new(), String::new());
        for (step, name) in STEPS.into_iter().enumerate() {
            before = Made { value: value_of(step, before.handed_on()), token: 100 + step as u64 };
            memory.push(remembered(name, before));
            lines += &effect("a", step, before.token);
        }
        let output = Some(result_of(before));
        (Shown { run: "a".into(), id: 7, state: State::Completed, losses: 0, output, memory }, lines)
    }

    fn complaints(shown: &Shown, lines: &str) -> usize {
        judge(shown, &Effects::read(lines).unwrap()).len()
    }

    #[test]
    fn a_workflow_without_fault_is_found_good() {
        let (shown, lines) = good();
        assert_eq!(judge(&shown, &Effects::read(&lines).unwrap()), Vec::<String>::new());
        let again = lines.clone() + &effect("a", 1, 5);
        assert_eq!(complaints(&Shown { losses: 1, ..shown }, &again), 0, "a lost worker explains one execution more");
    }

    #[test]
    fn every_fault_is_found() {
        let (shown, lines) = good();
        assert_eq!(complaints(&Shown { state: State::Failed, ..shown.clone() }, &lines), 1);
        assert_eq!(complaints(&Shown { output: Some(1), ..shown.clone() }, &lines), 1);
        assert_eq!(complaints(&shown, &(lines.clone() + &effect("a", 1, 5))), 1, "executed twice, and nobody fell");
        let mut twice = shown.clone();
        twice.memory.insert(1, twice.memory[0].clone());
        assert_ne!(complaints(&twice, &lines), 0, "a step that is remembered twice");
        let mut forgotten = shown.clone();
        forgotten.memory[2].made = None;
        assert_ne!(complaints(&forgotten, &lines), 0);
        let others = lines.replace(&effect("a", 0, 100), &effect("a", 0, 99));
        assert_eq!(complaints(&shown, &others), 1, "nobody executed it");
        let mut other = shown.clone();
        other.memory[0].made = Some(Made { token: 99, ..other.memory[0].made.unwrap() });
        assert_eq!(complaints(&other, &others), 1, "the second step had seen the output of another execution");
    }

    #[test]
    fn a_torn_line_is_found() {
        assert!(Effects::read("a 0 00").is_ok());
        assert!(Effects::read("a 0").is_err());
        assert!(Effects::read("a x 00").is_err());
    }
}
