//! The library `struct` of a Redis server, as far as the script uses it.

use mlua::{Error, Lua, MultiValue, Result, Table, Value, Variadic};

/// A number of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// `B`: a byte.
    Byte,
    /// `d`: a double.
    Double,
}

impl Item {
    fn size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Double => 8,
        }
    }
}

/// Returns the table of the library, with `pack` and `unpack`.
pub(crate) fn table(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, (format, numbers): (String, Variadic<f64>)| lua.create_string(pack(&format, &numbers)?);
    library.set("pack", lua.create_function(pack)?)?;
    let unpack = |_: &Lua, (format, data, position): (String, mlua::LuaString, Option<usize>)| {
        let (numbers, next) = unpack(&format, &data.as_bytes(), position.unwrap_or(1))?;
        let next = Value::Number(next as f64);
        Ok(numbers.into_iter().map(Value::Number).chain([next]).collect::<MultiValue>())
    };
    library.set("unpack", lua.create_function(unpack)?)?;
    Ok(library)
}

/// Only formats of these letters, lowest byte first; a server knows more.
fn items(format: &str) -> Result<Vec<Item>> {
    let letters =
        format.strip_prefix('<').ok_or_else(|| Error::runtime(format!("format {format} must begin with <")))?;
    let item = |letter| match letter {
        'B' => Ok(Item::Byte),
        'd' => Ok(Item::Double),
        _ => Err(Error::runtime(format!("this server does not know {letter} in a format"))),
    };
    letters.chars().map(item).collect()
}

/// Returns the numbers of a format as bytes.
fn pack(format: &str, numbers: &[f64]) -> Result<Vec<u8>> {
    let items = items(format)?;
    if items.len() > numbers.len() {
        return Err(Error::runtime(format!("format {format} has {} numbers too few", items.len() - numbers.len())));
    }
    let mut bytes = Vec::new();
    for (item, number) in items.into_iter().zip(numbers) {
        match item {
            Item::Byte => bytes.push(*number as i64 as u8),
            Item::Double => bytes.extend(number.to_le_bytes()),
        }
    }
    Ok(bytes)
}

/// Returns the numbers of a format from a position on, and the position behind them. The first is 1.
fn unpack(format: &str, data: &[u8], position: usize) -> Result<(Vec<f64>, usize)> {
    let mut rest = position.checked_sub(1).and_then(|from| data.get(from..));
    let mut next = position;
    let mut numbers = Vec::new();
    for item in items(format)? {
        let (bytes, behind) = rest
            .and_then(|rest| rest.split_at_checked(item.size()))
            .ok_or_else(|| Error::runtime("data string too short"))?;
        numbers.push(match item {
            Item::Byte => bytes[0].into(),
            Item::Double => {
                let mut double = [0; 8];
                double.copy_from_slice(bytes);
                f64::from_le_bytes(double)
            }
        });
        rest = Some(behind);
        next += item.size();
    }
    Ok((numbers, next))
}
