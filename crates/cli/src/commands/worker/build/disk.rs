//! A disk without room, or one that does not work, is this worker's trouble and not the build's: the build goes back, for
//! others to build. What submitters read names no path of this worker; its own log does.

use std::error::Error;
use std::io;
use std::path::Path;
use std::time::Duration;

use baton::runs::Failure;

use crate::os;

/// A disk with less room than this is full, whatever was written last: programs remove what they could not finish.
const FULL_BELOW_BYTES: u64 = 1 << 20;
/// Where a build said that the disk is full, this share of it being free does not speak against it.
const NEARLY_FULL: f64 = 0.1;
/// What programs print.
const WORDS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
/// Who was claimed more often, and still finds no room, would go from worker to worker for ever.
const CLAIMS_MAX: u32 = 20;

/// How the message of a full disk begins.
const FULL: &str = "the disk of the worker is full";
/// What a system says of a disk that does not work, whatever was to be done with it.
const BROKEN: [i32; 5] = [libc::EIO, libc::EROFS, libc::ESTALE, libc::ENODEV, libc::ENXIO];

/// What becomes of builds when there is no room.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// How long this worker takes no builds then.
    pub pause: Duration,
}

impl Disk {
    /// Something that this worker did for itself went wrong: whatever its disk says, no build is to blame.
    pub fn problem(self, what: &str, error: &(dyn Error + 'static)) -> Failure {
        tracing::warn!(%error, "{what}");
        match said(error) {
            Some(said) if is_full(said) => self.full(format!("{what}: {said}")),
            Some(said) => self.broken(what, said),
            None => Failure::new(format!("{what}: {error}")).code("worker"),
        }
    }

    /// Something went wrong with what a build brought or made. Who is to blame depends on what the disk says; `why` is what
    /// the submitter reads if it is the build.
    pub fn blame(self, what: &str, error: &(dyn Error + 'static), why: &str) -> Failure {
        tracing::warn!(%error, "{what}");
        match said(error) {
            Some(said) if is_full(said) => self.full(format!("{what}: {said}")),
            Some(said) if said.raw_os_error().is_some_and(|code| BROKEN.contains(&code)) => self.broken(what, said),
            Some(_) | None => Failure::new(format!("{what}: {why}")),
        }
    }

    fn broken(self, what: &str, said: &io::Error) -> Failure {
        Failure::give_back(format!("the worker has a problem with its disk: {what}: {said}"), self.pause)
    }

    /// A build did not work. Was it for want of room? `said_so` when it printed that.
    pub fn judge(self, failure: Failure, directory: &Path, said_so: bool) -> Failure {
        match os::disk_space(directory) {
            Ok(space) if has_no_room(space, said_so) => self.full(failure.message().to_owned()),
            Ok(_) | Err(_) => failure,
        }
    }

    fn full(self, message: String) -> Failure {
        Failure::give_back(format!("{FULL}: {message}"), self.pause)
    }
}

/// Whether a build goes back because the disk is full, and not for another reason.
pub fn is_for_want_of_room(failure: &Failure) -> bool {
    failure.pause().is_some() && failure.message().starts_with(FULL)
}

/// A build that no disk has room for comes to an end.
pub fn unless_hopeless(failure: Failure, epoch: u32) -> Failure {
    match failure.pause() {
        Some(_) if epoch >= CLAIMS_MAX => {
            let message = format!("{}; it was claimed {epoch} times, and is not tried again", failure.message());
            let code = if is_for_want_of_room(&failure) { "disk_full" } else { "worker" };
            Failure::new(message).code(code).not_retryable()
        }
        Some(_) | None => failure,
    }
}

/// Whether a program says that the disk is full.
pub fn is_said_in(line: &str) -> bool {
    WORDS.iter().any(|words| line.contains(words))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Is a disk with so many bytes free, of so many, full? A build that says so is believed when there is little room.
fn has_no_room((free, size): (u64, u64), said_so: bool) -> bool {
    free < FULL_BELOW_BYTES || (said_so && (free as f64) < NEARLY_FULL * size as f64)
}

/// What the system said of a disk, if this or what caused it came from there.
fn said<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    match error.downcast_ref::<io::Error>() {
        // What is wrapped is not its cause, but what it is.
        Some(found) => found.get_ref().and_then(|inner| said(inner)).or(Some(found)),
        None => error.source().and_then(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Disk = Disk { pause: Duration::from_secs(60) };

    fn no_room() -> io::Error {
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    #[test]
    fn a_full_disk_is_known_wherever_it_was_noticed() {
        let path = "/work".into();
        let transfer = baton::TransferError::File { path, error: no_room() };
        let unpacking = baton_archive::Error::File { path: "/work".into(), source: no_room() };
        let wrapped = io::Error::other(baton_archive::Error::Write(no_room()));
        let errors: [&(dyn Error + 'static); 4] = [&no_room(), &transfer, &unpacking, &wrapped];
        for error in errors {
            let failure = DISK.problem("cannot unpack", error);
            assert_eq!(failure.pause(), Some(DISK.pause), "{error}");
            assert!(failure.message().starts_with("the disk of the worker is full: cannot unpack: "), "{failure:?}");
        }
        assert_eq!(DISK.problem("cannot unpack", &baton_archive::Error::NotAnArchive).pause(), None);
    }

    #[test]
    fn a_disk_that_does_not_work_gives_the_build_back_and_names_no_path() {
        for code in [libc::EACCES, libc::ENOENT, libc::EIO] {
            let error = io::Error::from_raw_os_error(code);
            let wrapped = baton::TransferError::File { path: "/home/worker".into(), error };
            let failure = DISK.problem("cannot download", &wrapped);
            assert_eq!(failure.pause(), Some(DISK.pause), "{failure:?}");
            assert!(!is_for_want_of_room(&failure) && !failure.message().contains("/home"), "{failure:?}");
        }
    }

    #[test]
    fn what_a_build_made_is_its_own_fault_unless_the_disk_is_broken() {
        let blame = |code| {
            let source = io::Error::from_raw_os_error(code);
            let error = baton_archive::Error::File { path: "/home/worker/output/x".into(), source };
            DISK.blame("cannot gather", &error, "x cannot be read")
        };
        assert_eq!(blame(libc::EACCES), Failure::new("cannot gather: x cannot be read"));
        assert!(blame(libc::EIO).pause().is_some() && !blame(libc::EIO).message().contains("/home"));
        assert!(is_for_want_of_room(&blame(libc::ENOSPC)));
    }

    #[test]
    fn a_build_that_only_says_so_is_not_believed() {
        const GIB: u64 = 1 << 30;
        for (free, said_so, expected) in
            [(50 * GIB, true, false), (5 * GIB, true, true), (5 * GIB, false, false), (1_000, false, true)]
        {
            assert_eq!(has_no_room((free, 100 * GIB), said_so), expected, "{free} {said_so}");
        }
        assert!(is_said_in("cc1: No space left on device") && !is_said_in("there is space left"));
    }

    #[test]
    fn a_build_without_room_anywhere_comes_to_an_end() {
        let full = || DISK.problem("cannot unpack", &no_room());
        assert_eq!(unless_hopeless(full(), 1), full());
        assert_eq!(unless_hopeless(full(), CLAIMS_MAX).pause(), None);
    }
}
