//! Frames of HTTP/2, as few as an attack needs. No library lets anybody send these.

/// What a connection begins with: the preface, and settings with an initial window of this size.
pub fn preface(window: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut settings = vec![0, 4];
    settings.extend(window.to_be_bytes());
    bytes.extend(frame(SETTINGS, 0, 0, &settings));
    bytes
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const ACK: u8 = 1;
/// A frame's head.
pub const HEAD_BYTES: usize = 9;

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Headers as plain text, without any compression.
pub fn headers(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in pairs {
        bytes.push(0);
        text(&mut bytes, name);
        text(&mut bytes, value);
    }
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    // Seven bits for the length, and more bytes of seven bits when that is not enough.
    let mut left = text.len();
    if left < 127 {
        bytes.push(left as u8);
    } else {
        bytes.push(127);
        left -= 127;
        while left >= 128 {
            bytes.push((left % 128 + 128) as u8);
            left /= 128;
        }
        bytes.push(left as u8);
    }
    bytes.extend(text.as_bytes());
}
