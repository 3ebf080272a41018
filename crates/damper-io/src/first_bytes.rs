//! The first bytes of several buffers, for vectored writes.

use std::io::IoSlice;

/// The buffers of one write: as many as hyper passes at most.
pub(crate) type Buffers<'a> = [IoSlice<'a>; 64];

/// Returns memory for [`first_bytes`].
pub(crate) fn no_buffers<'a>() -> Buffers<'a> {
    [IoSlice::new(&[]); 64]
}

/// Returns the number of bytes in buffers.
pub(crate) fn len_of(bufs: &[IoSlice<'_>]) -> usize {
    bufs.iter().fold(0, |sum, buf| sum.saturating_add(buf.len()))
}

/// Returns the first `bytes` of buffers, cut where they end. Empty buffers are left out.
///
/// They are fewer bytes if they lie in more buffers than `first` has room for.
pub(crate) fn first_bytes<'a>(
    bufs: &'a [IoSlice<'_>],
    mut bytes: usize,
    first: &'a mut Buffers<'a>,
) -> &'a [IoSlice<'a>] {
    let mut count = 0;
    for (part, buf) in first.iter_mut().zip(bufs.iter().filter(|buf| !buf.is_empty())) {
        if bytes == 0 {
            break;
        }
        let taken = &buf[..buf.len().min(bytes)];
        *part = IoSlice::new(taken);
        bytes -= taken.len();
        count += 1;
    }
    &first[..count]
}
