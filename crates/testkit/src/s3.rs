//! An S3 server inside of the test, with its files in a directory that the test can look at.

use std::net::SocketAddr;
use std::path::Path;

use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};

/// The access key it knows.
pub const S3_KEY: &str = "test-key";
/// The secret of that key.
pub const S3_SECRET: &str = "test-secret";

/// Starts one that lives as long as the process; every directory below `root` is a bucket.
///
/// # Panics
/// When there is no such directory, or no free port.
pub fn start_s3(root: &Path) -> SocketAddr {
    let files = s3s_fs::FileSystem::new(root).expect("the directory is there");
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(S3_KEY, S3_SECRET));
    let service = service.build();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket of ours");
    let address = listener.local_addr().expect("it is bound");
    // A runtime of its own: a test may end its runtime in the middle, and the bucket has to survive that.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket of ours");
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                // Without it a body waits 40 ms for the acknowledgement of its head.
                let _ = socket.set_nodelay(true);
                let service = service.clone();
                let answer = service_fn(move |request| as_s3_does(service.clone(), request));
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(socket), answer).await;
                });
            }
        });
    });
    address
}

/// S3 does not know a multipart upload that was completed or aborted before; the stand-in says that it is forbidden.
async fn as_s3_does(service: S3Service, request: Request<Incoming>) -> Result<Response<s3s::Body>, s3s::HttpError> {
    let aborts = request.method() == Method::DELETE && request.uri().query().is_some_and(|it| it.contains("uploadId="));
    let mut response = Service::call(&service, request).await?;
    if aborts && response.status() == StatusCode::FORBIDDEN {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}
