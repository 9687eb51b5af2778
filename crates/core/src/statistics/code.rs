//! Blocks as bytes: small, and with a version, so that a later program can tell what an earlier one wrote.
//!
//! All numbers are varints (LEB128). Version, step, names (each once), subjects (kind, namespace, name), buckets: moment, looks,
//! subjects (each with a mask of the numbers that are not 0, the numbers, and histograms as distances of indexes and counts).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::histogram::BUCKETS;
use super::{Block, Bucket, Histogram, Kind, MEASURES, Measure, Numbers, Subject};
use crate::Millis;

const VERSION: u8 = 1;
/// Where histograms are in the mask of what is there.
const HAS_WAIT: u64 = 1 << MEASURES;
const HAS_DURATION: u64 = 1 << (MEASURES + 1);

/// Why bytes are no block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// A later program wrote them.
    #[error("statistics of version {0} were written by a newer program")]
    Newer(u8),
    /// They were damaged.
    #[error("statistics are damaged")]
    Damaged,
}

impl Block {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut names: BTreeMap<&str, u64> = BTreeMap::new();
        let mut subjects: BTreeMap<&Subject, u64> = BTreeMap::new();
        for subject in self.buckets.values().flat_map(|bucket| bucket.subjects.keys()) {
            subjects.insert(subject, 0);
            names.insert(&subject.namespace, 0);
            names.insert(&subject.name, 0);
        }
        names.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        subjects.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        let mut bytes = vec![VERSION];
        write(&mut bytes, self.step_ms.unsigned_abs());
        write(&mut bytes, names.len() as u64);
        for name in names.keys() {
            write(&mut bytes, name.len() as u64);
            bytes.extend_from_slice(name.as_bytes());
        }
        write(&mut bytes, subjects.len() as u64);
        for subject in subjects.keys() {
            bytes.push(kind_code(subject.kind));
            write(&mut bytes, names[&*subject.namespace]);
            write(&mut bytes, names[&*subject.name]);
        }
        write(&mut bytes, self.buckets.len() as u64);
        let mut before = 0;
        for (at, bucket) in &self.buckets {
            write(&mut bytes, (at - before).unsigned_abs());
            before = *at;
            write(&mut bytes, bucket.looks);
            write(&mut bytes, bucket.subjects.len() as u64);
            for (subject, numbers) in &bucket.subjects {
                write(&mut bytes, subjects[subject]);
                write_numbers(&mut bytes, numbers);
            }
        }
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Block, Unreadable> {
        let mut reader = Reader { rest: bytes };
        match reader.byte()? {
            VERSION => {}
            newer if newer > VERSION => return Err(Unreadable::Newer(newer)),
            _ => return Err(Unreadable::Damaged),
        }
        let step_ms = reader.millis()?;
        let mut names: Vec<Arc<str>> = Vec::new();
        for _ in 0..reader.length()? {
            let length = reader.length()?;
            let name = std::str::from_utf8(reader.take(length)?).map_err(|_| Unreadable::Damaged)?;
            names.push(name.into());
        }
        let mut subjects = Vec::new();
        for _ in 0..reader.length()? {
            let kind = kind_of(reader.byte()?).ok_or(Unreadable::Damaged)?;
            let [namespace, name] = [reader.index()?, reader.index()?];
            let name_at = |index: usize| names.get(index).cloned().ok_or(Unreadable::Damaged);
            subjects.push(Subject { kind, namespace: name_at(namespace)?, name: name_at(name)? });
        }
        let mut block = Block::new(step_ms);
        let mut at: Millis = 0;
        for _ in 0..reader.length()? {
            at = at.checked_add(reader.millis()?).ok_or(Unreadable::Damaged)?;
            let mut bucket = Bucket { looks: reader.number()?, subjects: BTreeMap::new() };
            for _ in 0..reader.length()? {
                let subject = subjects.get(reader.index()?).cloned().ok_or(Unreadable::Damaged)?;
                bucket.subjects.insert(subject, reader.numbers()?);
            }
            block.buckets.insert(at, bucket);
        }
        match reader.rest.is_empty() && block.step_ms > 0 {
            true => Ok(block),
            false => Err(Unreadable::Damaged),
        }
    }
}

fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Queue => 0,
        Kind::Workers => 1,
        Kind::Pool => 2,
    }
}

fn kind_of(code: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind_code(*kind) == code)
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn write_numbers(bytes: &mut Vec<u8>, numbers: &Numbers) {
    let is_there = |measure: &Measure| numbers.get(*measure) != 0;
    let mut mask = Measure::ALL.into_iter().filter(is_there).fold(0, |mask, measure| mask | 1 << measure.place());
    if !numbers.wait.is_empty() {
        mask |= HAS_WAIT;
    }
    if !numbers.duration.is_empty() {
        mask |= HAS_DURATION;
    }
    write(bytes, mask);
    Measure::ALL.into_iter().filter(is_there).for_each(|measure| write(bytes, numbers.get(measure)));
    for histogram in [&numbers.wait, &numbers.duration].into_iter().filter(|histogram| !histogram.is_empty()) {
        write(bytes, histogram.buckets().len() as u64);
        let mut before = 0;
        for (index, count) in histogram.buckets() {
            write(bytes, u64::from(index - before));
            write(bytes, *count);
            before = *index;
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Unreadable::Damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u64, Unreadable> {
        let mut number: u64 = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            number |= part << shift;
            if byte & 0x80 == 0 {
                // What does not fit would be lost without a word.
                return if part << shift >> shift == part { Ok(number) } else { Err(Unreadable::Damaged) };
            }
        }
        Err(Unreadable::Damaged)
    }

    fn millis(&mut self) -> Result<Millis, Unreadable> {
        Millis::try_from(self.number()?).map_err(|_| Unreadable::Damaged)
    }

    fn index(&mut self) -> Result<usize, Unreadable> {
        usize::try_from(self.number()?).map_err(|_| Unreadable::Damaged)
    }

    /// How many follow, each of at least a byte.
    fn length(&mut self) -> Result<usize, Unreadable> {
        let length = self.index()?;
        if length > self.rest.len() { Err(Unreadable::Damaged) } else { Ok(length) }
    }

    fn numbers(&mut self) -> Result<Numbers, Unreadable> {
        let (mut numbers, mask) = (Numbers::default(), self.number()?);
        if mask >> (MEASURES + 2) != 0 {
            return Err(Unreadable::Damaged);
        }
        for measure in Measure::ALL.into_iter().filter(|measure| mask & 1 << measure.place() != 0) {
            numbers.add(measure, self.number()?);
        }
        if mask & HAS_WAIT != 0 {
            numbers.wait = self.histogram()?;
        }
        if mask & HAS_DURATION != 0 {
            numbers.duration = self.histogram()?;
        }
        Ok(numbers)
    }

    fn histogram(&mut self) -> Result<Histogram, Unreadable> {
        let (mut histogram, mut at) = (Histogram::default(), 0_u16);
        for _ in 0..self.length()? {
            let far = u16::try_from(self.number()?).map_err(|_| Unreadable::Damaged)?;
            at = at.checked_add(far).filter(|at| *at < BUCKETS).ok_or(Unreadable::Damaged)?;
            histogram.add(at, self.number()?);
        }
        Ok(histogram)
    }
}
