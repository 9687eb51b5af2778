//! The audit log: lines go to the store first, and then to a file or to syslog as well, if the
//! settings name one.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use baton_core::Millis;
use baton_proto::{AuditLine, Time};
use baton_store::{AuditEntry, AuditRecord, Store, StoreResult};

use crate::answers::Answer;
use crate::metrics::Metrics;

/// How long a caller waits for the sink before its line is only in the store.
const SINK_WAIT: Duration = Duration::from_secs(2);
/// Where the machine's own syslog listens.
const SYSLOG_SOCKET: &str = "/dev/log";
/// Facility authpriv (10), severity notice (5): as RFC 5424 counts.
const PRIORITY: u8 = 10 * 8 + 5;

/// Where lines go besides the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sink {
    /// JSON lines at the end of this file.
    File(PathBuf),
    /// The syslog of this machine.
    Syslog,
    /// A syslog that takes datagrams, as `host:port`.
    SyslogUdp(String),
}

impl FromStr for Sink {
    type Err = String;

    fn from_str(text: &str) -> Result<Sink, String> {
        let wrong = || {
            format!(
                "audit_sink must be file:/an/absolute/path, syslog, or syslog://host:port, not {text:?}; \
                 without it, lines are in the database only"
            )
        };
        match (text.strip_prefix("file:"), text.strip_prefix("syslog://")) {
            (Some(path), _) if path.starts_with('/') => Ok(Sink::File(path.into())),
            (_, Some(address)) if has_port(address) => Ok(Sink::SyslogUdp(address.into())),
            _ if text == "syslog" => Ok(Sink::Syslog),
            _ => Err(wrong()),
        }
    }
}

fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl fmt::Display for Sink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sink::File(path) => write!(out, "the file {}", path.display()),
            Sink::Syslog => write!(out, "syslog at {SYSLOG_SOCKET}"),
            Sink::SyslogUdp(address) => write!(out, "syslog at {address}"),
        }
    }
}

impl Sink {
    /// Finds out whether lines can be written there.
    pub fn check(&self) -> Result<(), String> {
        let tried = match self {
            Sink::File(_) => self.write(&[]),
            Sink::Syslog => UnixDatagram::unbound().and_then(|socket| socket.connect(SYSLOG_SOCKET)),
            Sink::SyslogUdp(address) => resolve(address).map(drop),
        };
        tried.map_err(|error| format!("the audit log cannot be written to {self}: {error}"))
    }

    /// Opens what it writes to each time: the file may have been rotated, and syslog restarted.
    fn write(&self, lines: &[AuditLine]) -> io::Result<()> {
        match self {
            Sink::File(path) => {
                let mut text = Vec::new();
                for line in lines {
                    serde_json::to_writer(&mut text, line)?;
                    text.push(b'\n');
                }
                // In one write: several servers may write to one file.
                OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.write_all(&text)
            }
            Sink::Syslog => {
                let socket = UnixDatagram::unbound()?;
                socket.set_write_timeout(Some(SINK_WAIT))?;
                lines.iter().try_for_each(|line| socket.send_to(&message(line)?, SYSLOG_SOCKET).map(drop))
            }
            Sink::SyslogUdp(address) => {
                let to = resolve(address)?;
                let own: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
                let socket = UdpSocket::bind(own)?;
                lines.iter().try_for_each(|line| socket.send_to(&message(line)?, to).map(drop))
            }
        }
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let nobody = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    address.to_socket_addrs()?.next().ok_or_else(nobody)
}

/// A line as RFC 5424 has it.
fn message(line: &AuditLine) -> io::Result<Vec<u8>> {
    let mut text = format!("<{PRIORITY}>1 {} - baton {} audit - ", line.at, std::process::id()).into_bytes();
    serde_json::to_writer(&mut text, line)?;
    Ok(text)
}

/// A line as it is shown.
pub(crate) fn shown(record: AuditRecord) -> AuditLine {
    let AuditRecord { id, at, entry } = record;
    let AuditEntry { actor, action, subject, detail, namespace, address, request_id } = entry;
    AuditLine { id, at: Time(at), actor, action, subject, detail, namespace, address, request_id }
}

/// Writes the audit log.
#[derive(Debug)]
pub struct Audit {
    store: Arc<dyn Store>,
    sink: Option<Sink>,
    metrics: Arc<Metrics>,
}

impl Audit {
    /// One that writes to this store, and to where else the settings say.
    pub fn new(store: Arc<dyn Store>, sink: Option<Sink>, metrics: Arc<Metrics>) -> Audit {
        Audit { store, sink, metrics }
    }

    /// Writes a line down, with the request that it is part of. It is in the store when this returns;
    /// a sink that does not take it is told of in the log.
    pub async fn write(&self, entry: AuditEntry) -> StoreResult<()> {
        let entry = match Answer::current_origin() {
            Some(origin) => {
                let address = origin.address.map(|address| address.to_string());
                AuditEntry { address, request_id: Some(origin.request_id.to_string()), ..entry }
            }
            None => entry,
        };
        let written = self.store.audit(vec![entry]).await?;
        let Some(sink) = self.sink.clone() else { return Ok(()) };
        let lines: Vec<_> = written.into_iter().map(shown).collect();
        let ids: Vec<Millis> = lines.iter().map(|line| line.id).collect();
        let writing = tokio::task::spawn_blocking({
            let sink = sink.clone();
            move || sink.write(&lines)
        });
        let why = match tokio::time::timeout(SINK_WAIT, writing).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(_)) => "writing panicked".into(),
            Err(_) => format!("it took longer than {} s", SINK_WAIT.as_secs()),
        };
        self.metrics.audit_sink_failures.inc();
        tracing::error!(
            ?ids,
            error = why,
            "lines of the audit log are in the store, but could not be written to {sink}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: i64) -> AuditLine {
        let entry = AuditEntry {
            actor: "key_1".into(),
            action: "run.cancel".into(),
            detail: "a\nb".into(),
            ..AuditEntry::default()
        };
        shown(AuditRecord { id, at: 1_700_000_000_000, entry })
    }

    #[test]
    fn a_sink_is_a_file_or_syslog() {
        let cases = [
            ("file:/var/log/baton.jsonl", Some(Sink::File("/var/log/baton.jsonl".into()))),
            ("syslog", Some(Sink::Syslog)),
            ("syslog://logs.example:514", Some(Sink::SyslogUdp("logs.example:514".into()))),
            ("syslog://[::1]:514", Some(Sink::SyslogUdp("[::1]:514".into()))),
            ("file:audit.jsonl", None),
            ("file:", None),
            ("syslog://logs.example", None),
            ("syslog://:514", None),
            ("syslog://logs.example:99999", None),
            ("/var/log/baton.jsonl", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Sink>().ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_file_is_written_line_by_line_and_may_be_rotated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let sink = Sink::File(path.clone());
        sink.check().unwrap();
        sink.write(&[line(1), line(2)]).unwrap();
        std::fs::rename(&path, directory.path().join("audit.1")).unwrap();
        sink.write(&[line(3)]).unwrap();
        let read = |name: &str| -> Vec<AuditLine> {
            let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        assert_eq!(read("audit.1"), [line(1), line(2)]);
        assert_eq!(read("audit.jsonl"), [line(3)]);
        let nowhere = Sink::File(directory.path().join("none/audit.jsonl"));
        assert!(nowhere.check().unwrap_err().contains("cannot be written to the file"), "{nowhere}");
    }

    #[test]
    fn syslog_gets_a_datagram_for_each_line() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sink = Sink::SyslogUdp(socket.local_addr().unwrap().to_string());
        sink.check().unwrap();
        sink.write(&[line(1), line(2)]).unwrap();
        for id in [1, 2] {
            let mut room = [0; 2_048];
            let length = socket.recv(&mut room).unwrap();
            let text = std::str::from_utf8(&room[..length]).unwrap();
            let (head, json) = text.split_at(text.find('{').unwrap());
            assert_eq!(head, format!("<85>1 2023-11-14T22:13:20.000Z - baton {} audit - ", std::process::id()));
            assert_eq!(serde_json::from_str::<AuditLine>(json).unwrap(), line(id));
        }
    }
}
