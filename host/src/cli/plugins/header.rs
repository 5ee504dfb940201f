//! `sconce header`: the headers for plugins in C and C++, as this program was built with them.

use clap::{Args, ValueEnum};

use crate::cli::show::output;
use crate::exit;

/// `sconce.h`.
pub(super) const C: &str = include_str!(concat!(
    env!("SCONCE_CARRIED"),
    "/plugin-api/include/sconce.h"
));

/// `sconce.hpp`, which includes `sconce.h`.
pub(super) const CPP: &str = include_str!(concat!(
    env!("SCONCE_CARRIED"),
    "/plugin-api/include/sconce.hpp"
));

/// Arguments of `sconce header`.
#[derive(Debug, Args)]
pub(in crate::cli) struct HeaderArgs {
    /// Which header: `sconce.h`, or `sconce.hpp` with classes over it.
    #[arg(default_value = "c")]
    language: HeaderLanguage,
}

/// Language of a header.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderLanguage {
    C,
    #[value(name = "c++", alias = "cpp")]
    Cpp,
}

/// Prints the header.
pub(in crate::cli) fn header(arguments: &HeaderArgs) -> u8 {
    let text = match arguments.language {
        HeaderLanguage::C => C,
        HeaderLanguage::Cpp => CPP,
    };
    output::block(text.trim_end());
    exit::DONE
}
