//! Both protocols of builds, spoken by curl to the real server: on both stores, with files in a directory and in a bucket.

use std::process::Stdio;
use std::time::Duration;

use baton_testkit::{S3_KEY, S3_SECRET, start_s3};
use tokio::process::Command;

use crate::site::{API_KEY, Leases, Store, serve_with};

const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy)]
enum Storage {
    Directory,
    Bucket,
}

async fn plays(script: &str, store: Store, storage: Storage) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let url = match storage {
        Storage::Directory => home.path().join("files").to_string_lossy().into_owned(),
        Storage::Bucket => {
            let buckets = home.path().join("buckets");
            std::fs::create_dir_all(buckets.join("builds")).unwrap();
            format!("s3://builds/baton?region=eu-north-1&endpoint=http://{}", start_s3(&buckets))
        }
    };
    let settings = [
        ("BATON_STORAGE_URL", url.as_str()),
        ("BATON_STORAGE_FREE_BYTES_MIN", "0"),
        ("AWS_ACCESS_KEY_ID", S3_KEY),
        ("AWS_SECRET_ACCESS_KEY", S3_SECRET),
    ];
    let url = database.as_ref().map(|database| database.url());
    let server = serve_with(home.path(), url, Leases::LONG, &settings).await;
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let script = format!("{}/tests/e2e/curl/{script}", env!("CARGO_MANIFEST_DIR"));
    let child = Command::new("bash")
        .args([&script, work.to_str().unwrap()])
        .env("URL", server.url())
        .env("KEY", API_KEY)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(PATIENCE, child).await.expect("the script hangs").unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}\n{}", said(&done.stdout), said(&done.stderr));
    assert!(said(&done.stdout).contains("all is well"));
}

macro_rules! scripts {
    ($($name:ident: $script:literal, $store:ident, $storage:ident;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            plays($script, Store::$store, Storage::$storage).await;
        })+
    };
}

scripts! {
    expo_on_sqlite_and_a_directory: "expo.sh", Sqlite, Directory;
    expo_on_sqlite_and_a_bucket: "expo.sh", Sqlite, Bucket;
    expo_on_postgres_and_a_directory: "expo.sh", Postgres, Directory;
    expo_on_postgres_and_a_bucket: "expo.sh", Postgres, Bucket;
    builder_on_sqlite_and_a_directory: "builder.sh", Sqlite, Directory;
    builder_on_postgres_and_a_bucket: "builder.sh", Postgres, Bucket;
}
