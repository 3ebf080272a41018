//! The class and the tenant of a call, as a value.

use crate::Head;
use damper_core::InvalidText;
use damper_core::concurrency::Criticality;
use http::HeaderValue;

/// The longest name of a tenant, in bytes.
const LONGEST: usize = 256;

/// The class and the tenant of a call, in the extensions of its request.
///
/// A [`CriticalityLayer`](crate::CriticalityLayer) puts it there, and an [`AdmissionLayer`](crate::AdmissionLayer) decides by it. Pass it on
/// like the deadline: put it into the extensions of a request that a
/// [`ClientCriticalityLayer`](crate::ClientCriticalityLayer) sends. It is a value, so it also goes into tasks that you spawn.
///
/// A clone counts a reference and copies no text.
///
/// # Examples
///
/// A handler passes the class on, and the time left. A part of its work counts less:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; }
/// use damper::Deadline;
/// use damper::concurrency::Criticality;
/// use damper::http::CallClass;
/// use http::Request;
///
/// fn calls(deadline: Deadline, class: &CallClass) -> http::Result<[Request<()>; 2]> {
///     let price = Request::get("http://prices/").extension(deadline).extension(class.clone()).body(())?;
///     let advice = class.clone().at_most(Criticality::SheddablePlus);
///     let advice = Request::get("http://advice/").extension(deadline).extension(advice).body(())?;
///     Ok([price, advice])
/// }
/// # let [price, advice] = calls(Deadline::NEVER, &CallClass::new(Criticality::CriticalPlus))?;
/// # assert_eq!(price.extensions().get::<CallClass>().unwrap().criticality(), Criticality::CriticalPlus);
/// # assert_eq!(advice.extensions().get::<CallClass>().unwrap().criticality(), Criticality::SheddablePlus);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallClass {
    criticality: Criticality,
    /// Visible ASCII, so that it can be sent.
    tenant: Option<HeaderValue>,
}

impl CallClass {
    /// Creates the class of a call without a tenant.
    #[must_use]
    pub const fn new(criticality: Criticality) -> Self {
        Self { criticality, tenant: None }
    }

    /// Sets the tenant that makes the call. Default: none.
    ///
    /// # Errors
    ///
    /// [`InvalidText`], because a header has to carry the name: it has 1 to 256 visible characters of ASCII, and spaces between them.
    pub fn tenant(self, name: &str) -> Result<Self, InvalidText> {
        let value = HeaderValue::from_str(name).ok().filter(is_tenant_name);
        let allowed = "1 to 256 visible characters of ASCII, with spaces only between them";
        let tenant = value.ok_or_else(|| InvalidText::new("the tenant", name, allowed))?;
        Ok(self.with_tenant(Some(tenant)))
    }

    /// Sets the tenant, whose name was checked by [`is_tenant_name`].
    pub(super) fn with_tenant(self, tenant: Option<HeaderValue>) -> Self {
        Self { tenant, ..self }
    }

    /// Returns the class that the layers put into the extensions of this request, or the default class.
    #[must_use]
    pub fn of(head: &Head<'_>) -> Self {
        head.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Returns how much the call counts.
    #[must_use]
    pub const fn criticality(&self) -> Criticality {
        self.criticality
    }

    /// Returns the name of the tenant, if there is one.
    #[must_use]
    pub fn tenant_name(&self) -> Option<&str> {
        self.tenant.as_ref().and_then(|name| name.to_str().ok())
    }

    /// Returns the value of the tenant's header.
    pub(crate) const fn tenant_value(&self) -> Option<&HeaderValue> {
        self.tenant.as_ref()
    }

    /// Lowers the class to this one. A class that is lower already stays.
    #[must_use]
    pub fn at_most(self, highest: Criticality) -> Self {
        // The highest class is the first.
        Self { criticality: self.criticality.max(highest), ..self }
    }
}

/// Returns whether this value can be the name of a tenant.
pub(super) fn is_tenant_name(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let is_visible = |byte: &u8| byte.is_ascii_graphic();
    bytes.len() <= LONGEST
        && bytes.first().is_some_and(is_visible)
        && bytes.last().is_some_and(is_visible)
        && bytes.iter().all(|byte| is_visible(byte) || *byte == b' ')
}
