//! The plugin's side of the boundary: the runtime support of [`export_plugin!`](crate::export_plugin).

mod call;
mod create;
mod describe;
mod fence;
mod section;
mod table;
mod transport;

pub use call::Call;
pub(crate) use call::outcome;
#[doc(hidden)]
pub use create::{Kind, create_from, kind};
#[doc(hidden)]
pub use describe::describe;
#[doc(hidden)]
pub use fence::fence;
#[cfg(feature = "testing")]
pub(crate) use fence::keeping;
pub(crate) use fence::{Caught, catch_part};
#[doc(hidden)]
pub use section::{Bytes, metadata, section};
#[doc(hidden)]
pub use transport::{TransportKind, open_from, query_transports, transport_kind, transport_table};
