//! Admissions on the server's clock, and the file that a worker keeps of them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the realtime clock, in microseconds since 1970, rounded down.
#[must_use]
pub fn micros_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Tokens that one check took, between two readings of the clock.
///
/// The decision fell between the readings, so an interval has certainly seen it only if it contains both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// A reading from before the check, in µs since 1970.
    pub begun: u64,
    /// A reading from after it, rounded up.
    pub ended: u64,
    /// The tokens taken.
    pub tokens: u32,
}

const RECORD: usize = 20;

impl Admission {
    fn bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&self.begun.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.ended.to_le_bytes());
        bytes[16..].copy_from_slice(&self.tokens.to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let number = |range: std::ops::Range<usize>| {
            let mut number = [0; 8];
            number[..range.len()].copy_from_slice(&bytes[range]);
            u64::from_le_bytes(number)
        };
        Self { begun: number(0..8), ended: number(8..16), tokens: number(16..20) as u32 }
    }
}

/// A file of admissions, written one at a time.
///
/// Each is handed to the kernel before the next check, so a killed process loses at most one per thread.
#[derive(Debug)]
pub struct Log(File);

impl Log {
    /// Opens the file at `path` for appending.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn append(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    /// Writes one admission.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn write(&self, admission: Admission) -> io::Result<()> {
        // One write of an appended file is atomic, so threads may share the file.
        (&self.0).write_all(&admission.bytes())
    }

    /// Reads all admissions of the file at `path`; a missing file has none.
    ///
    /// # Errors
    ///
    /// The file system's.
    pub fn read(path: &Path) -> io::Result<Vec<Admission>> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(bytes.chunks_exact(RECORD).map(Admission::of_bytes).collect())
    }
}
