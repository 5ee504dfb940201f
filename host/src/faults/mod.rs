//! What a hook can do to the whole process, and what is done about it: crashes, exits, hangs.

pub(crate) mod signals;
