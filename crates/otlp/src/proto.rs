//! The messages of OTLP, as OpenTelemetry's .proto files (version 1.11) say.

#![allow(missing_docs, reason = "the .proto files have the documentation")]
#![allow(clippy::doc_lazy_continuation, clippy::doc_overindented_list_items, rustdoc::all)]

macro_rules! package {
    ($name:ident, $package:literal) => {
        pub mod $name {
            pub mod v1 {
                tonic::include_proto!($package);
            }
        }
    };
}

package!(common, "opentelemetry.proto.common.v1");
package!(resource, "opentelemetry.proto.resource.v1");
package!(trace, "opentelemetry.proto.trace.v1");
pub mod collector {
    package!(trace, "opentelemetry.proto.collector.trace.v1");
}
