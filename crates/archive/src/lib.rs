//! Source archives: packed so that the same tree gives the same bytes, unpacked without trusting a byte of them.
//!
//! * [`pack`] writes a directory as a zip to any writer.
//! * [`unpack`] reads a zip, tar or tar.gz into an empty directory, within [`Limits`]. It leaves all or nothing.
//! * [`check`] says whether [`unpack`] would take an archive, without writing anything.
//! * [`certs`] takes the parts out of an archive of signing certificates.
//!
//! Everything here blocks: in an asynchronous program, call it where blocking is allowed.
//!
//! Why an archive cannot reach outside of its directory: names have no parent parts and are not absolute; a file,
//! directory or link is only ever made where nothing was; links are made last, so nothing is written through one; and
//! a link may climb only with its first parts, and no higher than the root (see [`Refusal::LinkOutside`]).

#![warn(missing_docs)]

mod certs;
mod error;
mod intake;
mod limits;
mod links;
mod name;
mod pack;
mod sniff;
mod tree;
mod unpack;
mod untar;
mod unzip;
mod walk;

pub use certs::{CERTS_BYTES_MAX, Certs, CertsProblem, Secret, certs};
pub use error::{Error, Limit, Refusal};
pub use limits::Limits;
pub use name::{NAME_BYTES_MAX, PATH_BYTES_MAX};
pub use pack::{LinksOutside, Manifest, PackOptions, Progress, pack};
pub use sniff::Format;
pub use unpack::{Contents, check, unpack};
