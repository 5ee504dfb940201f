//! Texts fit for a terminal: escaped (`printable`), for a shell (`shell_word`), and above one line that is redrawn (`screen`).

pub mod printable;
pub mod screen;
pub mod shell_word;
