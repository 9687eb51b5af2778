//! The provider against a stand-in of EC2: the server of moto, which `scripts/moto` installs, and a front before it that forgets nothing, as EC2 does,
//! and has the moods that moto does not have.

mod create;
mod end;
mod front;
mod github;
mod server;
mod site;
