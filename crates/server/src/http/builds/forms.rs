//! Forms as they are described. They are read field by field, as they come.

use utoipa::ToSchema;

/// A build to be submitted.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read field by field")]
pub(super) struct BuildForm {
    /// What it is built for: `ios`, `android`, ...
    platform: String,
    /// The archive to build.
    #[schema(value_type = Option<String>, format = Binary)]
    source: Option<Vec<u8>>,
    /// An upload with the archive that came in pieces, instead of `source`.
    source_upload: Option<String>,
    /// An archive with certificates. It is kept encrypted, and only the holder of the build reads it.
    #[schema(value_type = Option<String>, format = Binary)]
    certs: Option<Vec<u8>>,
    /// 0 to 9; 9 goes first.
    priority: Option<u8>,
    /// The project, for fair turns and warm caches.
    project: Option<String>,
    /// The image of the machine to build on.
    #[schema(rename = "baseImageId")]
    base_image_id: Option<String>,
}

/// The end of a build.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what is read field by field")]
pub(super) struct ResultForm {
    /// The build.
    build_id: String,
    /// The builder, unless a header names it.
    worker_id: Option<String>,
    /// Whether it worked.
    success: bool,
    /// Why it did not.
    error_message: Option<String>,
    /// What came out.
    #[schema(value_type = Option<String>, format = Binary)]
    result: Option<Vec<u8>>,
}
