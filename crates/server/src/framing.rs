//! Requests of HTTP/1.1 that say twice, and differently, how long their body is.
//!
//! A proxy and a server that believe different ones of them take one request for two (request
//! smuggling), so a request with Content-Length and Transfer-Encoding is refused. hyper drops the
//! one before anybody can see it, so the bytes are looked at on their way to hyper: where a head
//! ends, and where its body does. The last byte of a head that says both is spoilt, for which hyper
//! answers 400 and closes the connection.

/// Longest line that is remembered: names of the headers in question are shorter, and so are the
/// sizes of chunks.
const LINE_BYTES_MAX: usize = 64;

/// Follows the requests of one connection.
#[derive(Debug)]
pub(crate) struct Framing {
    place: Place,
    line: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
    /// Nothing of the request has come yet but empty lines.
    blank: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In the head of a request.
    Head,
    /// In a body, with so many bytes to come.
    Body(u64),
    /// In the line that says how long a chunk is.
    ChunkSize,
    /// In a chunk, with so many bytes to come.
    Chunk(u64),
    /// Behind the last chunk.
    Trailers,
    /// This is no HTTP/1.1, or none that can be followed: hyper refuses it.
    Lost,
}

impl Framing {
    pub(crate) fn new() -> Framing {
        Framing { place: Place::Head, line: Vec::new(), length: None, chunked: false, blank: true }
    }

    /// Follows no longer.
    pub(crate) fn lose(&mut self) {
        self.place = Place::Lost;
    }

    /// Looks at what came in, and spoils a head that says twice how long its body is.
    pub(crate) fn look(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let used = match self.place {
                Place::Lost => return,
                Place::Body(left) | Place::Chunk(left) => {
                    let used = left.min(bytes.len() as u64);
                    self.pass(left - used);
                    used as usize
                }
                Place::Head | Place::ChunkSize | Place::Trailers => {
                    match bytes.iter().position(|byte| *byte == b'\n') {
                        None => {
                            self.remember(bytes);
                            return;
                        }
                        Some(end) => {
                            self.remember(&bytes[..end]);
                            if self.end_line() {
                                bytes[end] = 0;
                                self.lose();
                            }
                            end + 1
                        }
                    }
                }
            };
            bytes = &mut bytes[used..];
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn pass(&mut self, left: u64) {
        self.place = match (self.place, left) {
            (Place::Body(_), 0) => Place::Head,
            (Place::Body(_), left) => Place::Body(left),
            (_, 0) => Place::ChunkSize,
            (_, left) => Place::Chunk(left),
        };
    }

    /// Ends a line. True when it ends a head that must not be.
    fn end_line(&mut self) -> bool {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        match self.place {
            Place::Head => {
                // hyper passes over empty lines before a request.
                let was_blank = std::mem::replace(&mut self.blank, false);
                if !line.is_empty() {
                    self.note_header(&line);
                    return false;
                }
                self.blank = true;
                if was_blank {
                    return false;
                }
                let (length, chunked) = (self.length.take(), std::mem::take(&mut self.chunked));
                self.place = match (length, chunked) {
                    (Some(_), true) => return true,
                    (_, true) => Place::ChunkSize,
                    (Some(length), _) if length > 0 => Place::Body(length),
                    _ => Place::Head,
                };
            }
            Place::ChunkSize => {
                let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                let size =
                    std::str::from_utf8(&line[..digits]).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                self.place = match size {
                    Some(0) => Place::Trailers,
                    // And the end of its line.
                    Some(size) => Place::Chunk(size.saturating_add(2)),
                    None => Place::Lost,
                };
            }
            Place::Trailers if line.is_empty() => self.place = Place::Head,
            _ => {}
        }
        line.clear();
        self.line = line;
        false
    }

    fn note_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"content-length") {
            let value = std::str::from_utf8(&value[1..]).ok().and_then(|value| value.trim().parse().ok());
            // hyper refuses what is no number.
            self.length = Some(value.unwrap_or(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether something was spoilt, with the bytes coming in pieces of this size.
    fn is_spoilt(text: &str, piece: usize) -> bool {
        let mut framing = Framing::new();
        let mut spoilt = false;
        for piece in text.as_bytes().chunks(piece) {
            let mut bytes = piece.to_vec();
            framing.look(&mut bytes);
            spoilt |= bytes != piece;
        }
        spoilt
    }

    fn spoilt(text: &str) -> bool {
        let found = is_spoilt(text, usize::MAX);
        for piece in [1, 2, 3, 7, 64] {
            assert_eq!(is_spoilt(text, piece), found, "in pieces of {piece}: {text:?}");
        }
        found
    }

    const BOTH: &str = "POST / HTTP/1.1\r\nContent-Length: 4\r\nhost: x\r\ntransfer-ENCODING: chunked\r\n\r\n0\r\n\r\n";

    #[test]
    fn a_head_that_says_both_is_spoilt() {
        assert!(spoilt(BOTH));
        assert!(spoilt("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length:4\r\n\r\n"));
        assert!(spoilt("POST / HTTP/1.1\ntransfer-encoding: chunked\ncontent-length:4\n\n"));
        assert!(spoilt(&format!("\r\n\r\n{BOTH}")), "after empty lines");
    }

    #[test]
    fn a_later_request_of_the_connection_is_seen_as_well() {
        let long = format!("GET /{} HTTP/1.1\r\nx-long: {}\r\n\r\n", "a".repeat(200), "b".repeat(500));
        let sized = "POST / HTTP/1.1\r\ncontent-length: 42\r\n\r\nabc\r\ncontent-length: 1\r\ntransfer-encoding:";
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\n\r\n\r\n\n\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n";
        for before in [long.as_str(), sized, chunked] {
            assert!(!spoilt(&before.repeat(3)), "{before:?}");
            assert!(spoilt(&format!("{before}{BOTH}")), "{before:?}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_left_to_hyper() {
        assert!(!spoilt("hello\r\n\r\n"));
        assert!(!spoilt("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"));
    }
}
