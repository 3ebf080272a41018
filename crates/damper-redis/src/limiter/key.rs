//! Keys of limits.

use core::fmt::{self, Write};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use damper_core::ClientAddress;

/// A key for which a [`KeyedRedisLimiter`](crate::KeyedRedisLimiter) has a limit.
///
/// Two keys of a type have the same limit if, and only if, their bytes are the same. Keys of different types may have the same bytes:
/// `"42"` and `42_u32` are one limit.
///
/// # Examples
///
/// A key of your own must write different bytes for different keys. A separator that no part contains makes it so:
///
/// ```
/// use damper_redis::RedisKey;
///
/// struct Route {
///     tenant: u64,
///     path: String,
/// }
///
/// impl RedisKey for Route {
///     fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
///         use_bytes(format!("{}/{}", self.tenant, self.path).as_bytes())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of a limiter on Redis",
    note = "strings, bytes, integers, addresses and `Option`s of them are; implement `RedisKey` for types of your own"
)]
pub trait RedisKey {
    /// Calls a function with the bytes of the key, which are the same in every process.
    fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R;
}

impl RedisKey for [u8] {
    #[inline]
    fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        use_bytes(self)
    }
}

impl<const N: usize> RedisKey for [u8; N] {
    #[inline]
    fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        use_bytes(self)
    }
}

/// Implements [`RedisKey`] by `as_ref` to bytes.
macro_rules! keys_by_bytes {
    ($($key:ty),*) => {$(
        impl RedisKey for $key {
            #[inline]
            fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
                use_bytes(self.as_ref())
            }
        }
    )*};
}

keys_by_bytes!(str, String, Vec<u8>);

/// A buffer for the text of a key. An IPv6 address has at most 39 characters, an `i128` 40.
struct Text {
    bytes: [u8; 48],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Calls a function with the displayed text of a key. Only a long text is allocated.
fn with_text<R>(key: &impl fmt::Display, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
    let mut text = Text { bytes: [0; 48], len: 0 };
    if write!(text, "{key}").is_ok() {
        return use_bytes(text.bytes.get(..text.len).unwrap_or_default());
    }
    use_bytes(key.to_string().as_bytes())
}

/// Implements [`RedisKey`] by the displayed text.
macro_rules! keys_by_text {
    ($($key:ty),*) => {$(
        impl RedisKey for $key {
            fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
                with_text(self, use_bytes)
            }
        }
    )*};
}

keys_by_text!(
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    ClientAddress
);

/// `None` is the empty key, and `Some` the key after a `=`.
impl<K: RedisKey> RedisKey for Option<K> {
    fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        let Some(key) = self else { return use_bytes(&[]) };
        key.with_bytes(|bytes| {
            let mut prefixed = Vec::with_capacity(1 + bytes.len());
            prefixed.push(b'=');
            prefixed.extend_from_slice(bytes);
            use_bytes(&prefixed)
        })
    }
}

impl<K: RedisKey + ?Sized> RedisKey for &K {
    #[inline]
    fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        (**self).with_bytes(use_bytes)
    }
}
