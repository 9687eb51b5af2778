//! What goes into the store's verbs and what comes out.

mod changes;
mod claim;
mod hints;
mod keys;
mod queues;
mod reading;
mod search;
mod secrets;
mod settings;
mod submit;
mod workers;

pub use changes::*;
pub use claim::*;
pub use hints::*;
pub use keys::*;
pub use queues::*;
pub use reading::*;
pub use search::*;
pub use secrets::*;
pub use settings::*;
pub use submit::*;
pub use workers::*;
