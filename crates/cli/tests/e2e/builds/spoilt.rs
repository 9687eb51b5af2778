//! Recipes that spoil what their worker needs.

use std::fs;

use super::{Yard, text};
use crate::on_both_stores;
use crate::site::{Leases, Store};

async fn a_worker_without_its_cache_still_builds(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let cache = yard.path("one/cache");
    let worker = yard.worker("one", &["--recipe", "cp greeting.txt \"$BATON_OUTPUT_DIR/app.txt\""]);
    worker.wait_for_line("registered", super::PATIENCE).await;
    // It is gone, which is mended; then it cannot be one, which is done without.
    for spoil in [(|_: &std::path::Path| ()) as fn(&std::path::Path), |cache| fs::write(cache, "").unwrap()] {
        if cache.is_dir() {
            fs::remove_dir_all(&cache).unwrap();
        }
        spoil(&cache);
        let said = yard.submit(&["--output", "out.txt"]).await;
        assert_eq!(said.code, Some(0), "{said:?}; the worker: {}", worker.output());
        assert_eq!(yard.read("desk/out.txt"), "hello");
        fs::remove_file(yard.path("desk/out.txt")).unwrap();
        assert!(!said.out.contains(text(&cache)) && !said.err.contains(text(&cache)), "{said:?}");
    }
    assert!(cache.is_file() && worker.output().contains("cannot look into the cache"), "{}", worker.output());
}

async fn a_link_in_place_of_the_output_directory_is_not_followed(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    fs::create_dir(yard.path("private")).unwrap();
    yard.write("private/key", "not for builds");
    let recipe =
        format!("rmdir \"$BATON_OUTPUT_DIR\"; ln -s '{}' \"$BATON_OUTPUT_DIR\"", yard.path("private").display());
    let _worker = yard.worker("one", &["--recipe", &recipe]);
    let said = yard.submit(&[]).await;
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("BATON_OUTPUT_DIR is no longer the directory"), "{said:?}");
    assert!(!yard.path("desk/key").exists() && yard.read("private/key") == "not for builds");
}

on_both_stores!(a_worker_without_its_cache_still_builds, a_link_in_place_of_the_output_directory_is_not_followed,);
