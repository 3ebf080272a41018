//! A server in memory that runs the script in an embedded Lua, at a time that the test sets.

use crate::lua_struct;
use damper_redis::internal::{Command, Frame, Keys, Reply, ReplyError, SOURCE};
use mlua::{Function, Lua, MultiValue, Table, Variadic};
use redis::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// As much of a Redis server as the script needs.
///
/// `TIME`, `GET`, `MGET`, `SET` with `PX`, keys that expire, and the library `struct`.
///
/// The script is the real one, or a weakened copy of it. Any other command, a wrong number of arguments, a key that was not declared and a
/// number that is no integer are errors of the script, as on a real server or stricter.
#[derive(Debug)]
pub struct LuaServer {
    lua: Lua,
    script: Function,
    store: Rc<RefCell<Store>>,
}

/// The keys of a server, to be put back by [`LuaServer::restore`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Values with the time in ms at which they expire.
    keys: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
}

#[derive(Debug)]
struct Store {
    now: u64,
    memory: Memory,
    declared: Vec<Vec<u8>>,
    calls: usize,
    writes: usize,
}

impl LuaServer {
    /// Starts a server with the script at a time in µs since 1970.
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self::with_script(SOURCE, now)
    }

    /// Starts a server with a script of the caller's.
    ///
    /// # Panics
    ///
    /// If the script is not Lua.
    #[must_use]
    pub fn with_script(source: &str, now: u64) -> Self {
        let lua = Lua::new();
        let store = Store { now, memory: Memory::default(), declared: Vec::new(), calls: 0, writes: 0 };
        let store = Rc::new(RefCell::new(store));
        let shared = Rc::clone(&store);
        let call = lua.create_function(move |lua, args: Variadic<mlua::Value>| {
            let args: Vec<Vec<u8>> = args.iter().map(argument).collect::<Result<_, _>>()?;
            shared.borrow_mut().call(lua, &args)
        });
        let redis = lua.create_table().expect("memory");
        redis.set("call", call.expect("memory")).expect("a new table");
        lua.globals().set("redis", redis).expect("globals can be set");
        lua.globals().set("struct", lua_struct::table(&lua).expect("memory")).expect("globals can be set");
        let script = lua.load(source).set_name("=decide.lua").into_function().expect("the script is Lua");
        Self { lua, script, store }
    }

    /// Runs the script with these keys and arguments, and converts what it returns as a server does.
    ///
    /// # Errors
    ///
    /// The error of a script that failed.
    ///
    /// # Panics
    ///
    /// If Lua has no memory left.
    pub fn run(&self, keys: &[String], args: &[u64]) -> Result<Value, String> {
        let declared = keys.iter().map(|key| key.clone().into_bytes()).collect();
        self.store.borrow_mut().declared = declared;
        let globals = self.lua.globals();
        let texts: Vec<String> = args.iter().map(u64::to_string).collect();
        globals.set("KEYS", keys).and_then(|()| globals.set("ARGV", texts)).expect("globals can be set");
        let mut values = self.script.call::<MultiValue>(()).map_err(|error| error.to_string())?;
        Ok(reply(values.pop_front().unwrap_or(mlua::Value::Nil)))
    }

    /// Runs a command of a subject as a client does, and parses the reply.
    ///
    /// # Errors
    ///
    /// [`ReplyError`] if the reply is none of the script.
    ///
    /// # Panics
    ///
    /// If the script failed.
    pub fn execute(&self, keys: &Keys, holder: u64, command: &Command, frame: &Frame) -> Result<Reply, ReplyError> {
        let value = self.run(&keys.of(command, holder), &command.args(frame));
        Reply::parse(&value.unwrap_or_else(|error| panic!("{command:?}, {frame:?}: {error}")), command)
    }

    /// The server's time in µs since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.store.borrow().now
    }

    /// Lets time pass.
    pub fn advance(&self, micros: u64) {
        self.store.borrow_mut().now += micros;
    }

    /// Sets the server's clock, also back. Keys that expired by the earlier time are gone.
    pub fn set_time(&self, now: u64) {
        let mut store = self.store.borrow_mut();
        store.expire();
        store.now = now;
    }

    /// Loses all keys, as `FLUSHALL`.
    pub fn flush(&self) {
        self.store.borrow_mut().memory = Memory::default();
    }

    /// Loses one key, as by an eviction. Returns whether it was there.
    #[must_use]
    pub fn remove(&self, key: &str) -> bool {
        let mut store = self.store.borrow_mut();
        store.expire();
        store.memory.keys.remove(key.as_bytes()).is_some()
    }

    /// Stores a value without expiry.
    pub fn set(&self, key: &str, value: &[u8]) {
        self.store.borrow_mut().memory.keys.insert(key.into(), (value.into(), None));
    }

    /// Returns the value of a key that has not expired.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let mut store = self.store.borrow_mut();
        store.expire();
        store.memory.keys.get(key.as_bytes()).map(|(value, _)| value.clone())
    }

    /// Returns the time in ms at which a key expires: `None` if it does not, or is not there.
    #[must_use]
    pub fn expires(&self, key: &str) -> Option<u64> {
        self.store.borrow().memory.keys.get(key.as_bytes())?.1
    }

    /// The number of keys that have not expired.
    #[must_use]
    pub fn keys(&self) -> usize {
        let mut store = self.store.borrow_mut();
        store.expire();
        store.memory.keys.len()
    }

    /// Returns a copy of what the server remembers, as a replica has it.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.store.borrow().memory.clone()
    }

    /// Puts back what a server remembered: a lagging replica is promoted.
    pub fn restore(&self, memory: Memory) {
        self.store.borrow_mut().memory = memory;
    }

    /// How many commands the script has sent to the server so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.store.borrow().calls
    }

    /// How many of them wrote.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.store.borrow().writes
    }
}

impl Store {
    /// The server's clock in ms, by which keys expire.
    fn millis(&self) -> u64 {
        self.now / 1_000
    }

    /// A key expires after the millisecond that was set.
    fn expire(&mut self) {
        let millis = self.millis();
        self.memory.keys.retain(|_, (_, expires)| expires.is_none_or(|expires| millis <= expires));
    }

    fn call(&mut self, lua: &Lua, args: &[Vec<u8>]) -> mlua::Result<mlua::Value> {
        self.calls += 1;
        let texts: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        match texts.as_slice() {
            [b"TIME"] => {
                let (seconds, micros) = (self.now / 1_000_000, self.now % 1_000_000);
                Ok(mlua::Value::Table(lua.create_sequence_from([seconds.to_string(), micros.to_string()])?))
            }
            [b"GET", key] => {
                self.expire();
                self.value(lua, key)
            }
            [b"MGET", keys @ ..] => {
                self.expire();
                let values = keys.iter().map(|key| self.value(lua, key)).collect::<mlua::Result<Vec<_>>>()?;
                Ok(mlua::Value::Table(lua.create_sequence_from(values)?))
            }
            [b"SET", key, value] => self.set(lua, key, value, None),
            [b"SET", key, value, b"PX", millis] => {
                let text = std::str::from_utf8(millis).unwrap_or("none");
                let Some(millis) = text.parse::<u64>().ok().filter(|millis| (1..1 << 62).contains(millis)) else {
                    return Err(mlua::Error::runtime(format!("PX {text} is out of range")));
                };
                self.set(lua, key, value, Some(self.millis() + millis))
            }
            _ => Err(mlua::Error::runtime(format!("this server does not know {}", args.concat().escape_ascii()))),
        }
    }

    /// The value of a key: false if there is none.
    fn value(&self, lua: &Lua, key: &[u8]) -> mlua::Result<mlua::Value> {
        self.declared(key)?;
        match self.memory.keys.get(key) {
            Some((value, _)) => Ok(mlua::Value::String(lua.create_string(value)?)),
            None => Ok(mlua::Value::Boolean(false)),
        }
    }

    fn set(&mut self, lua: &Lua, key: &[u8], value: &[u8], expires: Option<u64>) -> mlua::Result<mlua::Value> {
        self.declared(key)?;
        self.writes += 1;
        self.memory.keys.insert(key.to_vec(), (value.to_vec(), expires));
        let ok: Table = lua.create_table()?;
        ok.set("ok", "OK")?;
        Ok(mlua::Value::Table(ok))
    }

    /// A cluster refuses keys that were not declared.
    fn declared(&self, key: &[u8]) -> mlua::Result<()> {
        if self.declared.iter().any(|declared| declared == key) {
            return Ok(());
        }
        Err(mlua::Error::runtime(format!("key {} was not declared", key.escape_ascii())))
    }
}

/// An argument of `redis.call` as text. A server prints 17 digits of a number, so integers pass whole.
fn argument(value: &mlua::Value) -> mlua::Result<Vec<u8>> {
    match value {
        mlua::Value::String(text) => Ok(text.as_bytes().to_vec()),
        mlua::Value::Integer(number) => Ok(number.to_string().into_bytes()),
        other => Err(mlua::Error::runtime(format!("an argument is {other:?}, it must be text or an integer"))),
    }
}

/// Converts the value that a script returns.
///
/// A number becomes an integer, cut off, and an array ends at the first nil.
fn reply(value: mlua::Value) -> Value {
    match value {
        mlua::Value::Integer(number) => Value::Int(number),
        mlua::Value::Number(number) => Value::Int(number as i64),
        mlua::Value::String(text) => Value::BulkString(text.as_bytes().to_vec()),
        mlua::Value::Boolean(true) => Value::Int(1),
        mlua::Value::Table(table) => {
            let mut values = Vec::new();
            for index in 1.. {
                match table.raw_get::<mlua::Value>(index) {
                    Ok(mlua::Value::Nil) | Err(_) => break,
                    Ok(value) => values.push(reply(value)),
                }
            }
            Value::Array(values)
        }
        _ => Value::Nil,
    }
}
