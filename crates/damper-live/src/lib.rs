//! A page that shows limits and breakers live, for browsers, and lets an operator change them.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::live`, with the feature `live`.
//!
//! A [`LivePage`] takes what it shows, and builds a [`LiveService`] for axum, hyper or tower. [`Latencies`] records latencies for it, and a
//! [`LiveRecorder`] keeps the counters of layers.
//!
//! # Contents
//!
//! | on the page | comes from |
//! |---|---|
//! | limits, their levels and quotas | [`LivePage::limit`] |
//! | refusals a second | the counters of layers, in a [`LiveRecorder`]; or [`LivePage::decision_log`] |
//! | the hottest keys, as hashes | [`LivePage::decision_log`] |
//! | breakers, each change of their states with its time and cause | [`LivePage::breaker`] |
//! | refusals of breakers | the counters of layers, in a [`LiveRecorder`] |
//! | percentiles of latencies | [`LivePage::latencies`] |
//! | concurrency limits, retry budgets, shadow refusals and all else that damper-metrics reads | [`LivePage::source`], [`LivePage::layer`] |
//! | lines and buttons of the application's own | [`LivePage::status`], [`LivePage::control`] |
//! | what would happen to a request, at an endpoint for scripts | [`LivePage::explain`] |
//!
//! Troubles are at the top: breakers that are not closed, limits that refuse, budgets that are empty. Nothing is sampled while no page is
//! open, so lines begin when the first one is opened. The changes of breakers, how often they opened, and the totals of counters go further
//! back, because the primitives know them anyway.
//!
//! # Access
//!
//! - Peers of the same machine may look. [`LivePage::open_to`] lets others look too, under the names that it is given. Requests for other
//!   hosts are refused, so that no site can bind its name to the server's address and read from it.
//! - A proxy on the same machine makes the requests of the whole world look local. Those in which it shows are refused. A proxy that adds no
//!   header and speaks HTTP/1.1 does not show: give each page that a proxy might reach a [token to look](LivePage::look_token).
//! - The holder of the [`LiveToken`] may change something: by `POST` only, with `application/json`, and from the page's own origin. There
//!   are no headers of CORS. An address that sends ten wrong tokens waits.
//! - One address may have eight streams open, of 32 in all: [`LivePage::most_open_per_address`].
//! - The page loads nothing from elsewhere. Its `Content-Security-Policy` allows its own files only.
//!
//! # Cost
//!
//! Nothing is locked or allocated on the path of a request. While a page is open, everything is read once in an
//! [interval](LivePage::interval), however many pages are open. A stream keeps at most one sample on its way. A browser that does not read it
//! within [the patience](LivePage::patience) is dropped: its stream ends and its place is free, whether or not the server polls the stream.
//! Data that the transport has taken count as read: those in the buffers of the sockets, in hyper's own of 400 KB where it copies, as over TLS,
//! and in the window of a stream of HTTP/2. No more than that is kept.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

// | file | idea |
// |---|---|
// | `page`, `error` | what the page shows and how it is served, and the error of its settings and tokens |
// | `service`, `beside`, `body` | the answers to browsers, alone and beside another service |
// | `access`, `token` | who may look, and who may change something |
// | `control`, `primitives` | the changes that browsers ask for, and what they change |
// | `explain` | the explanations that an operator may ask for |
// | `sampler` | one reading of everything, for all streams |
// | `stream` | the samples to one browser |
// | `hot_keys` | the hottest keys of a log of decisions |
// | `latency` | latencies, and the layer that records them |
// | `recorder` | the counters of layers, and what sources read |
// | `assets/` | the files that browsers load |

extern crate alloc;
extern crate std;

mod access;
mod beside;
mod body;
mod control;
mod error;
mod explain;
mod hot_keys;
mod latency;
mod page;
mod primitives;
mod recorder;
mod sampler;
mod service;
mod stream;
mod token;

use beside::Beside;
pub use body::BesideBody;
pub use error::LivePageError;
pub use latency::Latencies;
pub use page::LivePage;
pub use primitives::{ChangeQuota, SwitchBreaker};
pub use recorder::LiveRecorder;
pub use service::LiveService;
pub use token::LiveToken;
