//! The parts of stacks.

use crate::kind::Kind;
use crate::section::{Conflict, section};
use crate::setting::{Choice, choice};
use damper_core::concurrency::Criticality;

/// The limit of requests in flight in a server's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ServerConcurrency {
    /// No limit.
    #[default]
    None,
    /// That of `bulkhead`.
    Bulkhead,
    /// That of `adaptive_limit`.
    AdaptiveLimit,
    /// The adaptive gate of `admission`.
    Admission,
    /// The fixed gate of `admission`.
    FixedAdmission,
}

choice! { ServerConcurrency {
    "none" => ServerConcurrency::None,
    "bulkhead" => ServerConcurrency::Bulkhead,
    "adaptive_limit" => ServerConcurrency::AdaptiveLimit,
    "admission" => ServerConcurrency::Admission,
    "fixed_admission" => ServerConcurrency::FixedAdmission,
} }

/// The limit of calls in flight in a client's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum ClientConcurrency {
    /// No limit.
    #[default]
    None,
    /// That of `bulkhead`, for all calls together.
    Bulkhead,
    /// That of `bulkhead`, for each host.
    BulkheadPerHost,
    /// That of `adaptive_limit`.
    AdaptiveLimit,
}

choice! { ClientConcurrency {
    "none" => ClientConcurrency::None,
    "bulkhead" => ClientConcurrency::Bulkhead,
    "bulkhead_per_host" => ClientConcurrency::BulkheadPerHost,
    "adaptive_limit" => ClientConcurrency::AdaptiveLimit,
} }

choice! { Criticality {
    "critical_plus" => Criticality::CriticalPlus,
    "critical" => Criticality::Critical,
    "sheddable_plus" => Criticality::SheddablePlus,
    "sheddable" => Criticality::Sheddable,
} }

section! {
    /// Which parts the stack of a server has. Their settings are in the sections of these names.
    ServerStackSettings {
        /// Whether a request has a deadline.
        deadline: bool = true, Kind::Flag, Restart;
        /// Whether the rate of requests is limited.
        ratelimit: bool = true, Kind::Flag, Restart;
        /// The limit of the requests in flight. `fixed_admission` is the fixed gate of `admission`.
        concurrency: ServerConcurrency = ServerConcurrency::None, ServerConcurrency::KIND, Restart private;
        /// The paths of health checks, which no limit of the stack counts or refuses.
        ///
        /// An empty list turns this off. A path is compared as it is, without its query. One that ends with `/*` stands for all below
        /// it. Any client may send as many requests to these paths as it likes, so list none that cost something.
        exempt_paths: Vec<String> = HEALTH_PATHS.map(str::to_owned).to_vec(), Kind::Paths, Restart;
        /// The header in which trusted callers say how much a request counts. Unset: requests have no class.
        ///
        /// Its values are those of `default_class`. The stack removes it from the requests of all other callers.
        class_header: Option<String> = None, Kind::HeaderName, Restart;
        /// The header in which trusted callers say whose a request is. Unset: requests have no tenant.
        tenant_header: Option<String> = None, Kind::HeaderName, Restart;
        /// The networks of trusted callers. Empty: no caller is trusted.
        ///
        /// The caller is the peer of the connection, such as a proxy.
        trusted_callers: Vec<ipnet::IpNet> = Vec::new(), Kind::Networks, Restart;
        /// The class of requests that name none, and of all requests of other callers.
        default_class: Criticality = Criticality::Critical, Criticality::KIND, Restart;
        /// Whether the urgency of a header `Priority` (RFC 9218) is the class of a request that names none.
        ///
        /// The urgency of a caller that is not trusted can only lower its class.
        urgency: bool = false, Kind::Flag, Restart;
    }
    check |settings| class_conflict(settings.class_header.as_ref(), settings.tenant_header.as_ref(), &[
        (!settings.trusted_callers.is_empty(), &["trusted_callers", "class_header"]),
        (settings.default_class != Criticality::Critical, &["default_class", "class_header"]),
        (settings.urgency, &["urgency", "class_header"]),
    ]);
}

/// Returns the keys of a stack's classes that need another one, each of which is set or not.
fn class_conflict(
    class: Option<&String>,
    tenant: Option<&String>,
    others: &[(bool, &'static [&'static str])],
) -> Option<Conflict> {
    const BOTH: &[&str] = &["tenant_header", "class_header"];
    let conflict = |keys, expected| Some(Conflict { keys, looser: &[], expected });
    if class.is_some() {
        return if class == tenant { conflict(BOTH, "tenant_header must differ from class_header") } else { None };
    }
    let (_, keys) = [(tenant.is_some(), BOTH)].iter().chain(others).copied().find(|(is_set, _)| *is_set)?;
    conflict(keys, "class_header must be set too")
}

/// The paths that are exempt by default: of health checks, and the methods of gRPC's.
const HEALTH_PATHS: [&str; 5] = ["/health", "/healthz", "/livez", "/readyz", "/grpc.health.v1.Health/*"];

impl ServerStackSettings {
    /// Returns whether the limits of a stack do not apply to a path, because it is one of `exempt_paths`.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
    /// let stack = damper::config::Settings::default().server.http.stack;
    /// assert!(stack.exempts("/healthz") && stack.exempts("/grpc.health.v1.Health/Check"));
    /// assert!(!stack.exempts("/healthz/") && !stack.exempts("/orders"));
    /// ```
    #[must_use]
    pub fn exempts(&self, path: &str) -> bool {
        self.exempt_paths.iter().any(|exempt| match exempt.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == exempt,
        })
    }
}

section! {
    /// Which parts the stack of a client has. Their settings are in the sections of these names.
    ClientStackSettings {
        /// Whether a call has a deadline.
        deadline: bool = true, Kind::Flag, Restart;
        /// Whether each host has a circuit breaker.
        circuit_breaker: bool = true, Kind::Flag, Restart;
        /// Whether calls are tried again, within the budget of `retry_budget`.
        retry: bool = true, Kind::Flag, Restart;
        /// Whether slow calls get another attempt, within the same budget.
        hedge: bool = false, Kind::Flag, Restart;
        /// Whether each host has a throttle.
        throttle: bool = false, Kind::Flag, Restart;
        /// Whether attempts are paced to the limit of a server.
        ///
        /// A call that the server rejects all the same is made again only with `retry`.
        pacing: bool = false, Kind::Flag, Restart;
        /// Whether the rate of attempts is limited.
        ratelimit: bool = false, Kind::Flag, Restart;
        /// The limit of the calls in flight. `bulkhead_per_host` gives each host a bulkhead of its own.
        concurrency: ClientConcurrency = ClientConcurrency::None, ClientConcurrency::KIND, Restart private;
        /// The header that says how much a call counts. Unset: none is sent.
        ///
        /// The class is that of the request for which the call is made.
        class_header: Option<String> = None, Kind::HeaderName, Restart;
        /// The header that says whose a call is. Unset: none is sent.
        tenant_header: Option<String> = None, Kind::HeaderName, Restart;
        /// The class of calls that are made for no request. Unset: none is sent.
        default_class: Option<Criticality> = None, Criticality::KIND, Restart;
    }
    check |settings| class_conflict(settings.class_header.as_ref(), settings.tenant_header.as_ref(), &[
        (settings.default_class.is_some(), &["default_class", "class_header"]),
    ]);
}
