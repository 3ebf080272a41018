//! The headers of a stack's classes and tenants.

use super::ConfiguredLimitError;
use super::limit::header_named;
use crate::settings::{ClientStackSettings, ServerStackSettings};
use damper_http::wire::TrustedProxies;
use damper_http::{CallClass, ClassHeaders, ClientCriticalityLayer, CriticalityLayer};

/// Returns the headers of these names; `None` without one for the class.
fn class_headers(class: Option<&String>, tenant: Option<&String>) -> Option<ClassHeaders> {
    let headers = ClassHeaders::new(header_named(class?)?);
    Some(match tenant.and_then(|name| header_named(name)) {
        Some(name) => headers.tenant(name),
        None => headers,
    })
}

impl ServerStackSettings {
    /// Builds the layer that gives requests their classes, if there is a header for them.
    pub(super) fn criticality(&self) -> Result<Option<CriticalityLayer>, ConfiguredLimitError> {
        let Some(headers) = class_headers(self.class_header.as_ref(), self.tenant_header.as_ref()) else {
            return Ok(None);
        };
        let callers = TrustedProxies::new(self.trusted_callers.iter().map(ToString::to_string))?;
        let layer = CriticalityLayer::new(headers).trusting(callers).default_class(self.default_class);
        Ok(Some(if self.urgency { layer.urgency() } else { layer }))
    }
}

impl ClientStackSettings {
    /// Builds the layer that passes on the classes of requests, if there is a header for them.
    pub(super) fn criticality(&self) -> Option<ClientCriticalityLayer> {
        let headers = class_headers(self.class_header.as_ref(), self.tenant_header.as_ref())?;
        let layer = ClientCriticalityLayer::new(headers);
        Some(match self.default_class {
            Some(class) => layer.default_class(CallClass::new(class)),
            None => layer,
        })
    }
}
