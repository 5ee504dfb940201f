//! `sconce trust`: the keys whose signatures of plugins are trusted.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::plugin::trust::{self, Key, TrustStore, TrustedKey, UnsignedPolicy};
use crate::session::StartFailure;
use sconce_base::nearest::nearest;

/// Arguments of `sconce trust`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TrustArgs {
    #[command(subcommand)]
    command: TrustCommand,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Trusts a key.
    Add {
        /// Name of the signer, for messages and for `signed_by` in manifests. One name may have several keys.
        name: String,
        /// Public key, 56 characters, or the `.pub` file that contains it.
        key: String,
    },
    /// Lists the trusted keys, and what happens to plugins that none of them has signed.
    List {
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// No longer trusts a key.
    Remove {
        /// Name of the signer, for all its keys, or the id of one key.
        name: String,
    },
}

pub(in crate::cli) fn trust(arguments: &TrustArgs) -> Result<u8, StartFailure> {
    let usage = |problem| StartFailure::usage(vec![problem]);
    let file = trust::file().ok_or_else(|| {
        let problem = Diagnostic::new("this user has no home directory for trust.json");
        usage(problem.hint(format!("name a file in the variable {}", trust::VARIABLE)))
    })?;
    let mut store = if file.exists() {
        TrustStore::read(&file).map_err(StartFailure::usage)?
    } else {
        TrustStore::default()
    };
    match &arguments.command {
        TrustCommand::List { json } => list(&store, &file, *json),
        TrustCommand::Add { name, key } => {
            let line = add(&mut store, name, key).map_err(usage)?;
            write(&store, &file, &line).map_err(usage)?;
        }
        TrustCommand::Remove { name } => {
            let line = remove(&mut store, name).map_err(usage)?;
            write(&store, &file, &line).map_err(usage)?;
        }
    }
    Ok(exit::DONE)
}

fn list(store: &TrustStore, file: &Path, as_json: bool) {
    if as_json {
        let keys = store.keys.iter().map(|TrustedKey { name, key }| {
            json!({"name": name, "id": key.id().to_string(), "key": key.to_string()})
        });
        output::json(&json!({
            "file": file,
            "keys": keys.collect::<Vec<_>>(),
            "unsigned": store.unsigned,
            "except": store.except,
        }));
        return;
    }
    let keys = store.keys.iter();
    let rows = keys
        .map(|TrustedKey { name, key }| vec![name.clone(), key.id().to_string(), key.to_string()]);
    output::table(&rows.collect::<Vec<_>>());
    if store.keys.is_empty() {
        output::line("no key is trusted");
    }
    let unsigned = match store.unsigned {
        UnsignedPolicy::Allow => "allowed",
        UnsignedPolicy::Warn => "allowed, with a warning",
        UnsignedPolicy::Refuse => "refused",
    };
    output::line(&format!(
        "plugins that no trusted key has signed are {unsigned}"
    ));
    for place in &store.except {
        output::line(&format!("  except in {}", place.display()));
    }
    output::line(&format!("file: {}", file.display()));
}

/// Adds a key; returns what was done.
fn add(store: &mut TrustStore, name: &str, written: &str) -> Result<String, Diagnostic> {
    if !trust::is_name(name) {
        let problem = format!("{name:?} is not a name for a key");
        return Err(
            Diagnostic::new(problem).hint("use letters, digits, `.`, `_` and `-`, at most 64")
        );
    }
    let key = key(written)?;
    if let Some(known) = store.keys.iter().find(|known| known.key == key) {
        let problem = format!(
            "the key {} is trusted already, as `{}`",
            key.id(),
            known.name
        );
        return Err(Diagnostic::new(problem));
    }
    let line = format!("trusts plugins signed by `{name}`, key {}", key.id());
    store.keys.push(TrustedKey {
        name: name.to_owned(),
        key,
    });
    Ok(line)
}

/// The key that was written, or that a file contains.
fn key(written: &str) -> Result<Key, Diagnostic> {
    let path = PathBuf::from(written);
    let key = if path.is_file() {
        let text =
            fs_err::read_to_string(&path).map_err(|error| Diagnostic::new(error.to_string()))?;
        Key::parse_file(&text).map_err(|message| format!("`{written}`: {message}"))
    } else {
        Key::parse(written).map_err(|message| format!("`{written}` is not a file, and {message}"))
    };
    key.map_err(|message| {
        Diagnostic::new(message).hint("pass the signer's `.pub` file, or the second line of it")
    })
}

/// Removes the keys of a name, or the one with an id; returns what was done.
fn remove(store: &mut TrustStore, name: &str) -> Result<String, Diagnostic> {
    let is_meant = |known: &TrustedKey| {
        known.name == name || known.key.id().to_string().eq_ignore_ascii_case(name)
    };
    let before = store.keys.len();
    store.keys.retain(|known| !is_meant(known));
    let removed = before - store.keys.len();
    if removed > 0 {
        let keys = if removed == 1 { "key" } else { "keys" };
        return Ok(format!(
            "no longer trusts `{name}`: {removed} {keys} removed"
        ));
    }
    let problem = Diagnostic::new(format!("no trusted key is called `{name}` or has that id"));
    Err(match nearest(name, store.names()) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem.hint("`sconce trust list` shows them"),
    })
}

fn write(store: &TrustStore, file: &Path, line: &str) -> Result<(), Diagnostic> {
    let problem =
        |error| Diagnostic::new(format!("`{}` can't be written: {error}", file.display()));
    store.write(file).map_err(problem)?;
    output::line(line);
    output::line(&format!("file: {}", file.display()));
    Ok(())
}
