//! Only a place for `examples/*.rs`.
