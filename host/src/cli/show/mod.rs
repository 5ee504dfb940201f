//! What commands show: on standard output and error, and in a browser; and how numbers and manifests are written.

pub(in crate::cli) mod browser;
pub(in crate::cli) mod manifest_text;
pub(in crate::cli) mod nested;
pub(in crate::cli) mod number;
pub(in crate::cli) mod output;
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "looks at standard output before `main`")
)]
pub(in crate::cli) mod stdout;
