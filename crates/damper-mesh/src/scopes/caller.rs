//! The caller of a request.

/// The caller of a request: the function that it calls, the service that calls, and the user it calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Caller<'a> {
    function: &'a str,
    service: &'a str,
    user: &'a str,
}

impl<'a> Caller<'a> {
    /// Creates a call of a function, by an unnamed service for an unnamed user.
    #[must_use]
    pub const fn of(function: &'a str) -> Self {
        Self { function, service: "", user: "" }
    }

    /// Names the service that calls.
    #[must_use]
    pub const fn service(self, service: &'a str) -> Self {
        Self { service, ..self }
    }

    /// Names the user that the service calls for.
    #[must_use]
    pub const fn user(self, user: &'a str) -> Self {
        Self { user, ..self }
    }

    /// A copy that borrows nothing.
    pub(crate) fn to_owned(self) -> OwnedCaller {
        let Self { function, service, user } = self;
        OwnedCaller { function: function.into(), service: service.into(), user: user.into() }
    }

    pub(super) const fn names(self) -> (&'a str, &'a str, &'a str) {
        (self.function, self.service, self.user)
    }
}

/// As [`Caller`], with names of its own.
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
