//! The headers that carry the class and the tenant of a call.

use super::CallClass;
use super::call_class::is_tenant_name;
use damper_core::concurrency::Criticality;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The headers in which the class and the tenant of a call travel from one server to the next.
///
/// A server and its clients are built with the same names. The class is one of `critical-plus`, `critical`, `sheddable-plus` and
/// `sheddable`. It is written like that, and read in any case, with `_` in the place of `-` too. gRPC carries both as metadata of the same
/// names.
///
/// A header counts only if it has exactly one line and its value is valid. A tenant has 1 to 256 visible characters of ASCII.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// use damper::http::ClassHeaders;
/// use http::HeaderName;
///
/// let headers = ClassHeaders::new(HeaderName::from_static("x-criticality"));
/// let with_tenants = headers.tenant(HeaderName::from_static("x-tenant"));
/// # let _ = with_tenants;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassHeaders {
    class: HeaderName,
    tenant: Option<HeaderName>,
}

impl ClassHeaders {
    /// Sets the name of the header that carries the class.
    #[must_use]
    pub const fn new(class: HeaderName) -> Self {
        Self { class, tenant: None }
    }

    /// Sets the name of the header that carries the tenant. Default: none, so tenants are not passed on.
    #[must_use]
    pub fn tenant(self, name: HeaderName) -> Self {
        Self { tenant: Some(name), ..self }
    }

    /// Reads the class of a request, and removes its header if that is not valid.
    pub(super) fn take_class(&self, headers: &mut HeaderMap) -> Option<Criticality> {
        let class = only_value(headers, &self.class).and_then(|value| class_named(value.as_bytes()));
        if class.is_none() {
            headers.remove(&self.class);
        }
        class
    }

    /// Reads the tenant of a request, and removes its header if that is not valid.
    pub(super) fn take_tenant(&self, headers: &mut HeaderMap) -> Option<HeaderValue> {
        let name = self.tenant.as_ref()?;
        let tenant = only_value(headers, name).filter(|value| is_tenant_name(value)).cloned();
        if tenant.is_none() {
            headers.remove(name);
        }
        tenant
    }

    /// Removes both headers.
    pub(super) fn remove(&self, headers: &mut HeaderMap) {
        headers.remove(&self.class);
        if let Some(name) = &self.tenant {
            headers.remove(name);
        }
    }

    /// Writes the class and the tenant in the place of any others.
    pub(super) fn write(&self, headers: &mut HeaderMap, class: &CallClass) {
        headers.insert(self.class.clone(), HeaderValue::from_static(name_of(class.criticality())));
        let Some(name) = &self.tenant else { return };
        match class.tenant_value() {
            Some(tenant) => headers.insert(name.clone(), tenant.clone()),
            None => headers.remove(name),
        };
    }
}

/// Returns the value of a header that has one line.
fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

const fn name_of(class: Criticality) -> &'static str {
    match class {
        Criticality::CriticalPlus => "critical-plus",
        Criticality::Critical => "critical",
        Criticality::SheddablePlus => "sheddable-plus",
        Criticality::Sheddable => "sheddable",
    }
}

/// Returns the class of this name.
fn class_named(name: &[u8]) -> Option<Criticality> {
    let is_equal = |(given, known): (&u8, u8)| given.eq_ignore_ascii_case(&known) || (*given == b'_' && known == b'-');
    Criticality::ALL.into_iter().find(|class| {
        let known = name_of(*class);
        name.len() == known.len() && name.iter().zip(known.bytes()).all(is_equal)
    })
}
