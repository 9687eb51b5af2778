//! What a worker measures on its machine.

use std::path::Path;

use baton::proto::HealthReport;

use crate::os;

/// Measures the machine this worker runs on. What cannot be measured is left out.
pub fn measure(directory: &Path) -> HealthReport {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    HealthReport {
        cpu: read("/proc/loadavg").and_then(|text| load_share(&text)),
        memory: read("/proc/meminfo").and_then(|text| memory_share(&text)),
        disk_free_bytes: os::disk_space(directory).ok().map(|(free, _)| free),
    }
}

/// The load of the last minute as a share of the processors; 1 when all of them are busy.
fn load_share(loadavg: &str) -> Option<f64> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().ok()?.get() as f64;
    Some((load / processors).clamp(0.0, 1.0))
}

fn memory_share(meminfo: &str) -> Option<f64> {
    let kibibytes = |name: &str| -> Option<f64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (total, available) = (kibibytes("MemTotal:")?, kibibytes("MemAvailable:")?);
    (total > 0.0).then(|| (1.0 - available / total).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_between_nothing_and_all() {
        assert_eq!(memory_share("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), Some(0.75));
        assert_eq!(memory_share("nothing"), None);
        assert_eq!(load_share("100000.0 1 1"), Some(1.0));
        assert_eq!(load_share(""), None);
    }
}
