//! Makes Rust of the .proto files, without protoc.

use std::path::Path;

use prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    if std::env::var_os("CARGO_FEATURE_GRPC").is_none() {
        return Ok(());
    }
    let files = protox::compile(["baton/v1/workflow.proto", "baton/v1/schedule.proto"], ["proto"])?;
    let descriptors = Path::new(&std::env::var("OUT_DIR")?).join("baton.v1.bin");
    std::fs::write(descriptors, files.encode_to_vec())?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
