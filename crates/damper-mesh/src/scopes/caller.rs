//! The caller of a request.

use crate::document::Scope;

/// The caller of a request: the called function, the calling service, and its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller<'a> {
    function: &'a str,
    service: &'a str,
    user: &'a str,
}

impl<'a> Caller<'a> {
    /// Creates a caller of a function, with an unnamed service and user.
    #[must_use]
    pub const fn of(function: &'a str) -> Self {
        Self { function, service: "", user: "" }
    }

    /// Names the calling service.
    #[must_use]
    pub const fn service(self, service: &'a str) -> Self {
        Self { service, ..self }
    }

    /// Names the user on whose behalf the service calls.
    #[must_use]
    pub const fn user(self, user: &'a str) -> Self {
        Self { user, ..self }
    }

    /// Returns an owned copy.
    pub(crate) fn to_owned(self) -> OwnedCaller {
        let Self { function, service, user } = self;
        OwnedCaller { function: function.into(), service: service.into(), user: user.into() }
    }

    /// Returns the called function.
    pub(crate) const fn called(self) -> &'a str {
        self.function
    }

    /// Returns the key of a scope that has keys, if the caller names one.
    pub(crate) fn key_of(self, scope: Scope) -> Option<&'a str> {
        let key = match scope {
            Scope::Service => self.service,
            Scope::User => self.user,
            Scope::Global | Scope::Function => "",
        };
        (!key.is_empty()).then_some(key)
    }

    pub(super) const fn names(self) -> (&'a str, &'a str, &'a str) {
        (self.function, self.service, self.user)
    }
}

/// A [`Caller`] with owned names.
pub(crate) struct OwnedCaller {
    function: Box<str>,
    service: Box<str>,
    user: Box<str>,
}

impl OwnedCaller {
    pub(crate) fn borrowed(&self) -> Caller<'_> {
        Caller { function: &self.function, service: &self.service, user: &self.user }
    }
}
