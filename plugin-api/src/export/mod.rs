//! The plugin's side of the boundary: the runtime support of [`export_plugin!`](crate::export_plugin).

mod create;
mod describe;
mod section;
mod table;
mod transport;

#[doc(hidden)]
pub use crate::fence::{fence, keeping};
pub use crate::view::Call;
#[doc(hidden)]
pub use create::{Kind, create_from, kind};
#[doc(hidden)]
pub use describe::describe;
#[doc(hidden)]
pub use section::{Bytes, metadata, section};
#[doc(hidden)]
pub use transport::{TransportKind, open_from, query_transports, transport_kind, transport_table};
