//! nginx in front of a server: TLS outside, HTTP/1.1 and gRPC inside.

use baton_testkit::{Issued, Process, free_port};
use tempfile::TempDir;

use crate::wait::eventually;

const MISSING: &str = "nginx is needed for this test, and was not found in PATH or in /usr/sbin. Install it with \
     `apt-get install nginx-light` (Debian, Ubuntu), `dnf install nginx` (Fedora) or `brew install nginx` (macOS); scripts/test \
     does it by itself where it may. None has to run: the test starts its own.";

pub struct Nginx {
    _process: Process,
    _home: TempDir,
    url: String,
}

impl Nginx {
    pub async fn before(server: &str, issued: &Issued) -> Nginx {
        let home = tempfile::tempdir().unwrap();
        let (certificate, key) = issued.write(home.path(), "nginx");
        let port = free_port();
        let (place, inside) = (home.path().display(), server.strip_prefix("http://").unwrap());
        let user = if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            "user root;"
        } else {
            ""
        };
        // As docs/tls.md has it, with places of its own.
        let settings = format!(
            "daemon off; {user} worker_processes 1; pid {place}/pid; error_log stderr;
             events {{ worker_connections 256; }}
             http {{
               access_log off; client_body_temp_path {place}/body; proxy_temp_path {place}/proxy;
               fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;
               upstream baton {{ server {inside}; keepalive 16; }}
               upstream baton_grpc {{ server {inside}; keepalive 16; }}
               server {{
                 listen 127.0.0.1:{port} ssl http2;
                 ssl_certificate {}; ssl_certificate_key {};
                 client_max_body_size 0;
                 proxy_read_timeout 120s; grpc_read_timeout 120s; grpc_send_timeout 120s; client_body_timeout 120s;
                 location /baton.v1. {{ grpc_pass grpc://baton_grpc; }}
                 location / {{
                   proxy_pass http://baton; proxy_http_version 1.1; proxy_set_header Connection \"\";
                   proxy_set_header X-Forwarded-For $remote_addr; proxy_buffering off; proxy_request_buffering off;
                 }}
               }}
             }}",
            certificate.display(),
            key.display()
        );
        let file = home.path().join("nginx.conf");
        std::fs::write(&file, settings).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = std::env::split_paths(&path).chain(["/usr/sbin".into()]).map(|place| place.join("nginx"));
        let program = places.find(|program| program.is_file()).unwrap_or_else(|| panic!("{MISSING}"));
        let none: [(&str, &str); 0] = [];
        let prefix = home.path().to_str().unwrap();
        let mut process = Process::spawn(program, ["-p", prefix, "-c", file.to_str().unwrap()], none);
        eventually("nginx", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        assert!(process.ended().is_none(), "nginx ended: {}", process.output());
        Nginx { _process: process, _home: home, url: format!("https://127.0.0.1:{port}") }
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}
