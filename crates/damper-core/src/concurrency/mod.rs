//! Limits on how many calls are in flight at once.

// | file | type |
// |---|---|
// | `slots` | `Slots`, the word of a bulkhead: its limit, the calls in flight, the calls queued |

mod slots;
