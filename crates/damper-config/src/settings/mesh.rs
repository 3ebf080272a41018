//! Limits of the protocol Mesh.

use crate::kind::Kind;
use crate::section::section;
use damper_core::Quota;
use std::collections::BTreeMap;

section! {
    /// How many requests a server of Mesh takes, by scope.
    ///
    /// A request takes a token of each scope that is set. Unset: the scope has no limit.
    MeshSettings {
        /// The quota of all requests together.
        global: Option<Quota> = None, Kind::Quota, Live;
        /// The quota of each service that calls.
        service: Option<Quota> = None, Kind::Quota, Live;
        /// The quota of each user.
        user: Option<Quota> = None, Kind::Quota, Live;
        /// The quotas of functions. Others have none.
        functions: BTreeMap<String, Quota> = BTreeMap::new(), Kind::FunctionQuotas, Live;
        /// For how many busy services, and for how many users, the tables are sized.
        max_keys: u32 = 8192, Kind::Count { min: 1, max: 1 << 24 }, Restart;
    }
}
