//! Frames of HTTP/2, as few as a hostile client needs. No library lets anybody send these.

/// What a connection begins with: the preface, and settings with an initial window of this size.
pub fn preface(window: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut settings = vec![0, 4];
    settings.extend(window.to_be_bytes());
    bytes.extend(frame(SETTINGS, 0, 0, &settings));
    bytes
}

/// Carries a body.
pub const DATA: u8 = 0;
/// Begins a request.
pub const HEADERS: u8 = 1;
/// Ends a stream early.
pub const RST_STREAM: u8 = 3;
/// What an end wants.
pub const SETTINGS: u8 = 4;
/// Asks whether the other end is there.
pub const PING: u8 = 6;
/// More headers.
pub const CONTINUATION: u8 = 9;
/// Makes room.
pub const WINDOW_UPDATE: u8 = 8;
/// Ends a connection.
pub const GO_AWAY: u8 = 7;
/// A flag: nothing more comes.
pub const END_STREAM: u8 = 1;
/// A flag: all headers are there.
pub const END_HEADERS: u8 = 4;
/// A flag: this answers one.
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

/// A request without a body.
pub fn get(path: &str, api_key: &str, stream: u32) -> Vec<u8> {
    let pairs = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", path), ("x-api-key", api_key)];
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &headers(&pairs))
}

/// A call of gRPC whose message has one text, in its first field.
pub fn call(method: &str, text: &str, api_key: &str, stream: u32) -> Vec<u8> {
    let path = format!("/baton.v1.WorkflowService/{method}");
    let pairs = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", &path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-api-key", api_key),
    ];
    let mut message = vec![0, 0, 0, 0, (text.len() + 2) as u8, 0x0a, text.len() as u8];
    message.extend(text.as_bytes());
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &headers(&pairs));
    bytes.extend(frame(DATA, END_STREAM, stream, &message));
    bytes
}

/// A frame as it came: its kind, its stream and its payload.
pub async fn next(stream: &mut tokio::net::TcpStream) -> std::io::Result<(u8, u32, Vec<u8>)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    loop {
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await?;
        // The server sees a client that lives.
        if head[3] == PING && head[4] & ACK == 0 {
            stream.write_all(&frame(PING, ACK, 0, &payload)).await?;
            continue;
        }
        return Ok((head[3], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload));
    }
}
