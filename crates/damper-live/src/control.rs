//! The changes that a browser may ask the page for.

use super::primitives::{ChangeQuota, SwitchBreaker};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use damper_core::quota::{ParseQuotaError, Quota, SetQuotaError};
use http::StatusCode;
use serde_json::Value;

/// The longest request, in bytes.
pub(super) const LONGEST: usize = 4096;

/// A function of the application, behind a button.
type Action = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A limit that controls change and samples show.
pub(super) type ChangeableLimit = Arc<dyn ChangeQuota + Send + Sync>;

/// A breaker that controls change, and whose changes samples show.
pub(super) type SwitchableBreaker = Arc<dyn SwitchBreaker + Send + Sync>;

/// The things that may be changed, by name.
#[derive(Default)]
pub(super) struct Controls {
    pub(super) limits: Vec<(String, ChangeableLimit)>,
    pub(super) breakers: Vec<(String, SwitchableBreaker)>,
    pub(super) buttons: Vec<Button>,
}

/// A control of the application's own.
pub(super) struct Button {
    pub(super) name: String,
    pub(super) label: String,
    pub(super) action: Action,
}

/// A change that is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Nothing: whether the token is right.
    Check,
    /// Another quota for a limit.
    Quota { limit: String, quota: Quota },
    /// A breaker is to open.
    Trip { breaker: String },
    /// A breaker is to close.
    Reset { breaker: String },
    /// A button of the application's is pressed.
    Press { control: String },
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControlError {
    /// The request is not JSON.
    NotJson { error: String },
    /// A field is missing, or not a text.
    Field { name: &'static str },
    /// No such action.
    Action { found: String },
    /// There is nothing of this kind and name.
    Unknown { kind: &'static str, name: String },
    /// The text is no quota.
    Quota { text: String, error: ParseQuotaError },
    /// The limit does not accept the quota.
    SetQuota(SetQuotaError),
    /// The application's own control failed.
    Failed { control: String, error: String },
}

impl Command {
    /// Reads a request such as `{"action":"quota","name":"clients","quota":"20/s burst 40"}`.
    pub(super) fn read(request: &[u8]) -> Result<Self, ControlError> {
        let request: Value =
            serde_json::from_slice(request).map_err(|error| ControlError::NotJson { error: error.to_string() })?;
        let text = |name| request.get(name).and_then(Value::as_str).ok_or(ControlError::Field { name });
        let name = || text("name").map(ToOwned::to_owned);
        Ok(match text("action")? {
            "check" => Self::Check,
            "quota" => {
                let quota = text("quota")?;
                let parsed = quota.parse().map_err(|error| ControlError::Quota { text: quota.to_owned(), error })?;
                Self::Quota { limit: name()?, quota: parsed }
            }
            "trip" => Self::Trip { breaker: name()? },
            "reset" => Self::Reset { breaker: name()? },
            "press" => Self::Press { control: name()? },
            other => return Err(ControlError::Action { found: other.to_owned() }),
        })
    }
}

impl Controls {
    /// Makes a change, and returns a sentence that says so.
    pub(super) fn obey(&self, command: Command) -> Result<String, ControlError> {
        Ok(match command {
            Command::Check => "the token is right".to_owned(),
            Command::Quota { limit, quota } => {
                find(&self.limits, "limit", &limit)?.change_quota(quota).map_err(ControlError::SetQuota)?;
                format!("{limit}: the quota is {quota}")
            }
            Command::Trip { breaker } => {
                find(&self.breakers, "breaker", &breaker)?.trip();
                format!("{breaker}: tripped")
            }
            Command::Reset { breaker } => {
                find(&self.breakers, "breaker", &breaker)?.reset();
                format!("{breaker}: reset")
            }
            Command::Press { control } => {
                let button = self.buttons.iter().find(|button| button.name == control);
                let button = button.ok_or_else(|| ControlError::Unknown { kind: "control", name: control.clone() })?;
                (button.action)().map_err(|error| ControlError::Failed { control, error })?;
                format!("{}: done", button.label)
            }
        })
    }
}

fn find<'a, T: ?Sized>(of: &'a [(String, Arc<T>)], kind: &'static str, name: &str) -> Result<&'a T, ControlError> {
    let found = of.iter().find(|(own, _)| own == name);
    found.map(|(_, found)| &**found).ok_or_else(|| ControlError::Unknown { kind, name: name.to_owned() })
}

impl ControlError {
    /// The status that a response has for it.
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::NotJson { .. } => StatusCode::BAD_REQUEST,
            Self::Unknown { .. } => StatusCode::NOT_FOUND,
            Self::SetQuota(SetQuotaError::Busy) => StatusCode::CONFLICT,
            Self::Field { .. } | Self::Action { .. } | Self::Quota { .. } | Self::SetQuota(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Failed { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { error } => write!(f, "the request is not JSON: {error}"),
            Self::Field { name } => write!(f, "the request has no text {name:?}"),
            Self::Action { found } => {
                write!(f, "action {found:?} is unknown, there are check, quota, trip, reset and press")
            }
            Self::Unknown { kind, name } => write!(f, "there is no {kind} {name:?} that may be changed"),
            Self::Quota { text, error } => write!(f, "{text:?} is no quota, {error}; such as 100/s burst 200"),
            Self::SetQuota(error) => write!(f, "the quota stays: {error}"),
            Self::Failed { control, error } => write!(f, "{control}: {error}"),
        }
    }
}

impl core::error::Error for ControlError {}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_core::breaker::{CircuitBreaker, State};
    use damper_core::limit::RateLimiter;

    fn controls() -> (Controls, Arc<RateLimiter>, Arc<CircuitBreaker>) {
        let limiter = Arc::new(RateLimiter::new(Quota::per_second(5)));
        let breaker = Arc::new(CircuitBreaker::default());
        let button = Button {
            name: "break".into(),
            label: "Break it".into(),
            action: Box::new(|| Err("it is broken already".into())),
        };
        let controls = Controls {
            limits: [("clients".to_owned(), Arc::clone(&limiter) as _)].into(),
            breakers: [("upstream".to_owned(), Arc::clone(&breaker) as _)].into(),
            buttons: [button].into(),
        };
        (controls, limiter, breaker)
    }

    fn answer(request: &str) -> Result<String, (u16, String)> {
        let command = Command::read(request.as_bytes());
        let answer = command.and_then(|command| controls().0.obey(command));
        answer.map_err(|error| (error.status().as_u16(), error.to_string()))
    }

    #[test]
    fn commands_change_what_they_name() {
        let (controls, limiter, breaker) = controls();
        let obey = |request: &str| controls.obey(Command::read(request.as_bytes()).unwrap());
        let quota = r#"{"action":"quota","name":"clients","quota":"20/s burst 40"}"#;
        assert_eq!(obey(quota), Ok("clients: the quota is 20/s burst 40".to_owned()));
        assert_eq!(limiter.peek().quota(), Quota::per_second(20).burst(40));
        obey(r#"{"action":"trip","name":"upstream"}"#).unwrap();
        assert_eq!(breaker.state(), State::Open);
        obey(r#"{"action":"reset","name":"upstream"}"#).unwrap();
        assert_eq!(breaker.state(), State::Closed);
        assert_eq!(obey(r#"{"action":"check"}"#), Ok("the token is right".to_owned()));
    }

    #[test]
    fn errors_name_the_value_and_what_is_allowed() {
        for (request, status, part) in [
            ("", 400, "not JSON"),
            ("[", 400, "not JSON"),
            ("[]", 422, "\"action\""),
            (r#"{"action":7}"#, 422, "\"action\""),
            (r#"{"action":"stop"}"#, 422, "action \"stop\" is unknown"),
            (r#"{"action":"trip"}"#, 422, "\"name\""),
            (r#"{"action":"quota","name":"clients"}"#, 422, "\"quota\""),
            (r#"{"action":"quota","name":"clients","quota":"many"}"#, 422, "\"many\" is no quota"),
            (r#"{"action":"quota","name":"clients","quota":"0/s burst 4294967296"}"#, 422, "is no quota"),
            (r#"{"action":"quota","name":"clients","quota":"4000000000/ms"}"#, 422, "the quota stays"),
            (r#"{"action":"quota","name":"nobody","quota":"5/s"}"#, 404, "no limit \"nobody\""),
            (r#"{"action":"trip","name":"nobody"}"#, 404, "no breaker \"nobody\""),
            (r#"{"action":"reset","name":"nobody"}"#, 404, "no breaker \"nobody\""),
            (r#"{"action":"press","name":"nobody"}"#, 404, "no control \"nobody\""),
            (r#"{"action":"press","name":"break"}"#, 500, "break: it is broken already"),
        ] {
            let (found, text) = answer(request).expect_err(request);
            assert_eq!(found, status, "{request}: {text}");
            assert!(text.contains(part), "{request}: {text}");
        }
    }
}
