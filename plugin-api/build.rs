//! Records the compiler for the plugin's metadata: plugin and API crate are built by the same one.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "rustc of unknown version".to_owned());
    println!("cargo:rustc-env=SCONCE_RUSTC={}", version.trim());
    println!("cargo:rustc-env=SCONCE_TARGET={}", variable("TARGET"));
    println!(
        "cargo:rustc-env=SCONCE_TARGET_FEATURES={}",
        variable("CARGO_CFG_TARGET_FEATURE")
    );
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
