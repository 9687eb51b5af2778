//! What the operating system has and the standard library has not: the only place with unsafe code.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Sends a signal to a process.
pub fn signal_process(pid: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: kill takes two numbers and touches no memory of ours.
    done(unsafe { libc::kill(pid, signal) })
}

/// Sends a signal to every process of a group.
pub fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    let group = libc::pid_t::try_from(group).map_err(io::Error::other)?;
    // SAFETY: as above.
    done(unsafe { libc::kill(-group, signal) })
}

/// Whether this process ignores a signal, as whoever started it may have wanted.
pub fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: all zeroes is a valid sigaction, and without a new one the call only writes the present one into it.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives until the call is over.
    done(unsafe { libc::sigaction(signal, std::ptr::null(), &mut present) })?;
    Ok(present.sa_sigaction == libc::SIG_IGN)
}

/// Makes the child die with the thread that starts it. Start children from threads that live as long as the program.
pub fn die_with_parent(command: &mut tokio::process::Command) {
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe calls are allowed; prctl and getppid are.
        unsafe {
            command.pre_exec(move || {
                done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
                // A parent that died before the call sends no signal any more.
                let orphaned = u32::try_from(libc::getppid()) != Ok(parent);
                if orphaned { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
            });
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// What a command and everything it starts may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Address space of each process.
    pub memory_bytes: Option<u64>,
    /// Processes of this user, all together; the system does not count those of root.
    pub processes: Option<u64>,
}

/// Starts the command with limits, and without core dumps.
pub fn limit(command: &mut tokio::process::Command, limits: Limits) {
    let set = |resource, most: u64| {
        let limit = libc::rlimit { rlim_cur: most as libc::rlim_t, rlim_max: most as libc::rlim_t };
        // SAFETY: the call reads the structure, which lives until it is over.
        done(unsafe { libc::setrlimit(resource, &limit) })
    };
    // SAFETY: setrlimit is async-signal-safe on the systems we run on, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            set(libc::RLIMIT_CORE, 0)?;
            limits.memory_bytes.map_or(Ok(()), |bytes| set(libc::RLIMIT_AS, bytes))?;
            limits.processes.map_or(Ok(()), |processes| set(libc::RLIMIT_NPROC, processes))
        });
    }
}

/// Lets everything else go before this thread. Elsewhere than on Linux it is the whole process.
pub fn lower_priority_of_this_thread(nice: i32) -> io::Result<()> {
    // SAFETY: setpriority takes numbers and touches no memory of ours.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// Keeps other processes of the same user from reading our environment and memory, where the key of a worker is. Nothing
/// keeps root from it.
pub fn hide_from_others() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: prctl takes numbers here and touches no memory of ours.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) })?;
    Ok(())
}

/// Makes this process the parent of whatever below it loses its own. Elsewhere than on Linux that stays the first process of
/// the system.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: prctl takes numbers here and touches no memory of ours.
    done(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })?;
    Ok(())
}

/// Takes note that a child has ended. Not for children that somebody else here waits for.
pub fn bury(child: u32) {
    let Ok(child) = libc::pid_t::try_from(child) else { return };
    // SAFETY: without a place for the status, waitpid touches no memory of ours. It does not wait.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) };
}

/// The numbers of this user and its group.
pub fn user() -> (u32, u32) {
    // SAFETY: both calls only return a number, and cannot fail.
    unsafe { (libc::getuid(), libc::getgid()) }
}

/// Bytes that this user may still write on the disk of `path`, and the size of the disk.
pub fn disk_space(path: &Path) -> io::Result<(u64, u64)> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: all zeroes is a valid statvfs, and the call only writes into it.
    let mut space: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte and the structure lives until the call is over.
    done(unsafe { libc::statvfs(path.as_ptr(), &mut space) })?;
    let block = space.f_frsize as u64;
    Ok((space.f_bavail as u64 * block, space.f_blocks as u64 * block))
}

/// The name of this machine.
pub fn hostname() -> Option<String> {
    let mut name = [0u8; 256];
    // SAFETY: the call writes at most as many bytes as it is told, and one is left for the closing zero.
    done(unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) }).ok()?;
    let length = name.iter().position(|byte| *byte == 0)?;
    String::from_utf8(name[..length].to_vec()).ok().filter(|name| !name.is_empty())
}

/// A terminal that does not show what is typed, until this is dropped.
pub struct EchoOff(libc::termios);

impl EchoOff {
    /// Of the terminal behind the standard input.
    pub fn of_stdin() -> io::Result<EchoOff> {
        // SAFETY: all zeroes is a valid termios, and the call fills it.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives until the call is over.
        done(unsafe { libc::tcgetattr(libc::STDIN_FILENO, &mut before) })?;
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        // SAFETY: the structure is only read.
        done(unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &silent) })?;
        Ok(EchoOff(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // SAFETY: as above. There is nobody to tell of an error.
        let _ = unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &self.0) };
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        let (free, size) = disk_space(Path::new("/")).unwrap();
        assert!(size > 0 && free <= size);
        assert!(disk_space(Path::new("/no/such/place")).is_err());
        signal_process(std::process::id(), 0).unwrap();
        assert!(hostname().is_some());
    }
}
