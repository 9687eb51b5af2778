//! Numbers about the process, as other programs that Prometheus watches show them. They are read
//! from /proc when somebody asks; where there is none, they are not shown.

use std::sync::OnceLock;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::Described;

/// The kernel's word for "ticks a second" in /proc/self/auxv.
const AT_CLKTCK: u64 = 17;
/// The kernel's word for "bytes of a page" there.
const AT_PAGESZ: u64 = 6;

const CPU: (&str, &str) = ("process_cpu_seconds", "Processor time that the process has used");
const RESIDENT: (&str, &str) = ("process_resident_memory_bytes", "Memory that the process has in use");
const VIRTUAL: (&str, &str) = ("process_virtual_memory_bytes", "Addresses that the process has taken");
const THREADS: (&str, &str) = ("process_threads", "Threads of the process");
const OPEN_FDS: (&str, &str) = ("process_open_fds", "Open file descriptors");
const MAX_FDS: (&str, &str) = ("process_max_fds", "Most file descriptors that may be open");
const START: (&str, &str) = ("process_start_time_seconds", "When the process started, since 1970");

/// What there is, for the documentation.
pub(crate) fn described() -> Vec<Described> {
    let gauges = [RESIDENT, VIRTUAL, THREADS, OPEN_FDS, MAX_FDS, START];
    let gauge = |(name, help): (&str, &'static str)| Described { name: name.into(), kind: "gauge", labels: &[], help };
    let cpu = Described { name: format!("{}_total", CPU.0), kind: "counter", labels: &[], help: CPU.1 };
    std::iter::once(cpu).chain(gauges.map(gauge)).collect()
}

/// Asks the system.
#[derive(Debug, Default)]
pub(crate) struct Process {
    started: OnceLock<Option<f64>>,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(stat) = Stat::read() else { return Ok(()) };
        let cpu = ConstCounter::new(stat.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(CPU.0, CPU.1, None, cpu.metric_type())?)?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let gauges = [
            (RESIDENT, Some(stat.resident_bytes)),
            (VIRTUAL, Some(stat.virtual_bytes)),
            (THREADS, Some(stat.threads)),
            (OPEN_FDS, std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64)),
            (MAX_FDS, limit.map(|limit| limit as f64)),
            (START, *self.started.get_or_init(|| Some(boot_seconds()? + stat.started_after_boot))),
        ];
        for ((name, help), value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    started_after_boot: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
    threads: f64,
}

impl Stat {
    fn read() -> Option<Stat> {
        let (ticks, page) = (auxiliary(AT_CLKTCK)?, auxiliary(AT_PAGESZ)?);
        Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?, ticks, page)
    }

    fn parse(text: &str, ticks_per_second: f64, page_bytes: f64) -> Option<Stat> {
        // The second field is the name of the program, which may have anything in it.
        let after_name = text.rsplit_once(')')?.1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // The first of these is the third of proc(5).
        let number = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
        Some(Stat {
            cpu_seconds: (number(14)? + number(15)?) / ticks_per_second,
            threads: number(20)?,
            started_after_boot: number(22)? / ticks_per_second,
            virtual_bytes: number(23)?,
            resident_bytes: number(24)? * page_bytes,
        })
    }
}

/// What the kernel told the process when it started.
fn auxiliary(wanted: u64) -> Option<f64> {
    let bytes = std::fs::read("/proc/self/auxv").ok()?;
    let words = bytes
        .chunks_exact(size_of::<usize>())
        .map(|word| word.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)));
    let words: Vec<u64> = words.collect();
    words.chunks_exact(2).find(|pair| pair[0] == wanted).map(|pair| pair[1] as f64)
}

fn boot_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_process_is_read_whatever_its_name_is() {
        let text = "4242 (ba) ton) S 1 4242 4242 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 1000 4096000 25 184467\n";
        let expected = Stat {
            cpu_seconds: 2.0,
            started_after_boot: 10.0,
            virtual_bytes: 4_096_000.0,
            resident_bytes: 102_400.0,
            threads: 9.0,
        };
        assert_eq!(Stat::parse(text, 100.0, 4_096.0), Some(expected));
        assert_eq!(Stat::parse("nothing", 100.0, 4_096.0), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_seen() {
        let stat = Stat::read().unwrap();
        assert!(stat.resident_bytes > 1_000_000.0 && stat.threads >= 1.0 && boot_seconds().unwrap() > 1_000_000_000.0);
    }
}
