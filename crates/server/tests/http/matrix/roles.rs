//! Who asks: every kind of credential, ours and those of a foreign namespace.

use super::table::{Opens, Row};

/// A kind of credential.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    Nobody,
    /// A key that nobody made.
    Stranger,
    /// Keys of our namespace with one scope.
    Read,
    Submit,
    Worker,
    NamespaceAdmin,
    /// The administrator of all namespaces.
    Admin,
    BuilderToken,
    /// The worker's key, and the name of its builder.
    BuilderName,
    Machine,
    /// The worker's key, and the lease of a build.
    Lease,
    /// The reader's key, with the lease and the builder's name.
    ReaderWithLease,
    BuildToken,
    Runner,
    Join,
    Password,
    /// A key with all scopes of a foreign namespace, with our leases.
    Foreign,
    /// The same, with a lease of its own namespace.
    ForeignLease,
    /// The same, with the lease of a build of ours.
    ForeignHolder,
    ForeignBuilderToken,
    ForeignBuilderName,
    ForeignMachine,
    ForeignBuildToken,
    ForeignRunner,
    ForeignJoin,
    ForeignPassword,
}

impl Role {
    pub const ALL: [Role; 26] = [
        Role::Nobody,
        Role::Stranger,
        Role::Read,
        Role::Submit,
        Role::Worker,
        Role::NamespaceAdmin,
        Role::Admin,
        Role::BuilderToken,
        Role::BuilderName,
        Role::Machine,
        Role::Lease,
        Role::ReaderWithLease,
        Role::BuildToken,
        Role::Runner,
        Role::Join,
        Role::Password,
        Role::Foreign,
        Role::ForeignLease,
        Role::ForeignHolder,
        Role::ForeignBuilderToken,
        Role::ForeignBuilderName,
        Role::ForeignMachine,
        Role::ForeignBuildToken,
        Role::ForeignRunner,
        Role::ForeignJoin,
        Role::ForeignPassword,
    ];

    pub fn is_foreign(self) -> bool {
        self >= Role::Foreign
    }

    /// True for a credential of two parts, which is no more than its key where the other part is not
    /// looked at, or for one that is in the body of one request only.
    pub fn is_pointless_for(self, row: &Row) -> bool {
        let is_about_builds = matches!(row.opens, Opens::Holder | Opens::HolderOrWorker | Opens::Builder);
        match self {
            Role::BuilderName | Role::ReaderWithLease | Role::ForeignBuilderName => !is_about_builds,
            Role::Lease | Role::ForeignHolder => !matches!(row.opens, Opens::Holder | Opens::HolderOrWorker),
            Role::Password | Role::ForeignPassword => row.opens != Opens::Password,
            _ => false,
        }
    }

    /// True when the role opens the row.
    pub fn may(self, opens: Opens) -> bool {
        if opens == Opens::Anybody {
            return true;
        }
        match self {
            Role::Nobody | Role::Stranger | Role::ReaderWithLease => false,
            Role::Read => matches!(opens, Opens::Read | Opens::BuildRead | Opens::AnyKey),
            Role::Submit => Role::Read.may(opens) || matches!(opens, Opens::Submit | Opens::Bring | Opens::BuildSubmit),
            // The bodies of `Builder` name the builder, which is the worker's.
            Role::Worker => {
                let as_builder = matches!(opens, Opens::HolderOrWorker | Opens::Builder);
                as_builder || matches!(opens, Opens::Worker | Opens::Bring | Opens::Owner | Opens::AnyKey)
            }
            Role::NamespaceAdmin => {
                Role::Submit.may(opens) || matches!(opens, Opens::Worker | Opens::HolderOrWorker | Opens::Admin)
            }
            Role::Admin => Role::NamespaceAdmin.may(opens) || opens == Opens::Everything,
            Role::BuilderToken | Role::BuilderName => {
                matches!(opens, Opens::Holder | Opens::HolderOrWorker | Opens::Builder)
            }
            Role::Machine | Role::Lease => matches!(opens, Opens::Holder | Opens::HolderOrWorker),
            Role::BuildToken => matches!(opens, Opens::BuildRead | Opens::BuildSubmit),
            Role::Runner => opens == Opens::Runner,
            Role::Join => opens == Opens::Join,
            Role::Password => opens == Opens::Password,
            Role::Foreign
            | Role::ForeignLease
            | Role::ForeignHolder
            | Role::ForeignBuilderToken
            | Role::ForeignBuilderName
            | Role::ForeignMachine
            | Role::ForeignBuildToken
            | Role::ForeignRunner
            | Role::ForeignJoin
            | Role::ForeignPassword => false,
        }
    }
}

/// What the document has to say of each: the alternatives, with the schemes of each and their scopes.
pub fn security(opens: Opens) -> serde_json::Value {
    let holder = [
        serde_json::json!({"worker_token": []}),
        serde_json::json!({"api_key": ["worker"], "worker_id": []}),
        serde_json::json!({"vm_token": []}),
        serde_json::json!({"api_key": ["worker"], "lease": []}),
    ];
    let key = |scope: &str| serde_json::json!({"api_key": [scope]});
    match opens {
        Opens::Anybody | Opens::Password => serde_json::Value::Null,
        Opens::Read => serde_json::json!([key("read")]),
        Opens::Submit => serde_json::json!([key("submit")]),
        Opens::Worker => serde_json::json!([key("worker")]),
        Opens::Bring => serde_json::json!([key("submit"), key("worker")]),
        Opens::Admin | Opens::Everything => serde_json::json!([key("admin")]),
        Opens::Owner | Opens::AnyKey => serde_json::json!([{"api_key": []}]),
        Opens::BuildRead => serde_json::json!([{"build_token": []}, key("read")]),
        Opens::BuildSubmit => serde_json::json!([{"build_token": []}, key("submit")]),
        Opens::Holder => serde_json::json!(holder),
        Opens::HolderOrWorker => {
            serde_json::json!([holder[0], key("worker"), holder[2], holder[3]])
        }
        Opens::Builder => serde_json::json!(holder[..2]),
        Opens::Runner => serde_json::json!([{"runner_token": []}]),
        Opens::Join => serde_json::json!([{"join_token": []}]),
    }
}
