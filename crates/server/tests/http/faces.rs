//! Faces translate: they call verbs of the service, and none of them reads or writes the store itself.

use std::fs;
use std::path::{Path, PathBuf};

/// Sources of the faces, relative to this crate.
const FACES: [&str; 3] = ["src/http", "src/grpc", "../web/src"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Lines with the field `store`, however the chain that leads there is broken into lines.
fn lines_with_the_store(source: &str) -> Vec<usize> {
    let is_field = |at: usize| {
        let after = source[at + ".store".len()..].chars().next();
        after.is_none_or(|next| !next.is_alphanumeric() && next != '_' && next != '(')
    };
    let fields = source.match_indices(".store").filter(|(at, _)| is_field(*at));
    fields.map(|(at, _)| source[..at].lines().count()).collect()
}

#[test]
fn no_face_reads_or_writes_the_store() {
    let mut files = Vec::new();
    FACES.iter().for_each(|face| sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(face), &mut files));
    assert!(files.len() > 100, "only {} files were found: have the faces moved?", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let lines = lines_with_the_store(&fs::read_to_string(&file).unwrap());
        wrong.extend(lines.into_iter().map(|line| format!("{}:{line}", file.display())));
    }
    assert!(wrong.is_empty(), "call a verb of `service` (or of `face.rs`) instead: {wrong:#?}");
}

#[test]
fn the_scan_sees_the_store_in_every_shape() {
    assert_eq!(lines_with_the_store("let now =\n    app.store.now().await?;\n"), [2]);
    assert_eq!(lines_with_the_store("app\n    .store\n    .run(run)\n"), [2]);
    assert_eq!(lines_with_the_store("Arc::as_ptr(&view.app.store)"), [1]);
    assert!(lines_with_the_store("flag.store(true); settings.storage; face::store_kind(app)").is_empty());
}
