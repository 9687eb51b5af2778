//! Packs and unpacks on a real file system. Evil archives are made byte by byte, because no decent library makes them.

mod bombs;
mod certs;
mod evil_tar;
mod evil_zip;
mod mutations;
mod pack;
mod raw_tar;
mod raw_zip;
mod round_trip;
mod sandbox;
