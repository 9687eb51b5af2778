//! Downloads over connections that are cut, and files that come damaged.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use baton::{Client, ClientError, TransferError};

const CONTENT: &[u8] = b"0123456789abcdefghij";
const SUM: &str = "7e5ec5c1d5ba7fd4d8ce0d5a3eb2d94b8f3a7d66f5ec36e6ab9ac4b7b0a6b1c2";

/// A server that gives every connection one of these answers, and notes the ranges that were asked for.
struct Server {
    url: String,
    ranges: Arc<Mutex<Vec<String>>>,
}

fn serve(answers: Vec<Vec<u8>>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = ranges.clone();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            seen.lock().unwrap().push(range_asked_for(&stream));
            // The client may have hung up already.
            let _ = (&stream).write_all(&answer);
        }
    });
    Server { url, ranges }
}

fn range_asked_for(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map(|line| line.unwrap_or_default());
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| line.strip_prefix("range: "));
    range.unwrap_or("all").to_owned()
}

fn answer(status: &str, more: &str, length: usize, body: &[u8], sum: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\netag: \"x\"\r\nx-checksum-sha256: {sum}\r\n\
         content-length: {length}\r\n{more}\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn sum_of(content: &[u8]) -> String {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    baton::sha256_of(&file).unwrap()
}

async fn fetch(server: &Server, target: &Path) -> Result<baton::Downloaded, TransferError> {
    let client = Client::new(&server.url, "").unwrap();
    client.download_result("0198c1f2-0000-7000-8000-000000000000", target, Arc::new(drop)).await
}

fn names_in(directory: &Path) -> Vec<String> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn a_cut_download_goes_on_where_it_was() {
    let sum = sum_of(CONTENT);
    let server = serve(vec![
        answer("200 OK", "", 20, &CONTENT[..7], &sum),
        answer("206 Partial Content", "content-range: bytes 7-19/20\r\n", 13, &CONTENT[7..9], &sum),
        answer("206 Partial Content", "content-range: bytes 9-19/20\r\n", 11, &CONTENT[9..], &sum),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("app.ipa");
    let downloaded = fetch(&server, &target).await.unwrap();
    assert_eq!((downloaded.size, downloaded.sha256), (20, sum));
    assert_eq!(std::fs::read(&target).unwrap(), CONTENT);
    assert_eq!(*server.ranges.lock().unwrap(), ["all", "bytes=7-", "bytes=9-"]);
    assert_eq!(names_in(directory.path()), ["app.ipa"]);
}

/// The file changed between the two: what came before is of no use.
#[tokio::test]
async fn another_file_begins_anew() {
    let other = b"another";
    let server = serve(vec![
        answer("200 OK", "", 20, &CONTENT[..7], &sum_of(CONTENT)),
        answer("200 OK", "", other.len(), other, &sum_of(other)),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("app.ipa");
    fetch(&server, &target).await.unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), other);
}

#[tokio::test]
async fn a_damaged_file_gets_no_name() {
    let server = serve(vec![answer("200 OK", "", 20, CONTENT, SUM)]);
    let directory = tempfile::tempdir().unwrap();
    let error = fetch(&server, &directory.path().join("app.ipa")).await.unwrap_err();
    assert!(matches!(error, TransferError::Damaged { .. }), "{error:?}");
    assert_eq!(names_in(directory.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_refusal_leaves_nothing() {
    let body = br#"{"error":"there is no file","code":"not_found"}"#;
    let server = serve(vec![answer("404 Not Found", "", body.len(), body, SUM)]);
    let directory = tempfile::tempdir().unwrap();
    let error = fetch(&server, &directory.path().join("app.ipa")).await.unwrap_err();
    assert!(matches!(error, TransferError::Call(ClientError::Refused { status: 404, .. })), "{error:?}");
    assert_eq!(names_in(directory.path()), Vec::<String>::new());
}
