//! Tests of all kinds of data: the bits of their samples (`golden`), and of those read `on_demand`; `real_data` of some.

pub(super) mod golden;
pub(super) mod on_demand;
pub(super) mod real_data;
