//! `sconce board`: the runs in a directory as a page for a browser on this machine, or as one file.
//!
//! **Parts**
//! - `inside`: the directory, below which files are opened and no link is followed. `secrets`: what is not shown of a manifest.
//! - `collection`: the runs in it, read again where their files have changed; `summary`: all of them as one table; `curves`
//!   and `details`: what is shown of one.
//! - `server`: connections and what they ask for; `http`: requests and answers as bytes; `walls`: which requests are refused.
//! - `page`: the page, one file of HTML with its style and script. `export`: the same page with its data within it.
//!
//! **Flow.** Read all runs → listen on 127.0.0.1, print the address → the page asks for `runs.json`, for curves and details
//! of the runs that are looked at, and waits for `events`: one comes when a file of a run has changed. While no page is open nothing
//! is looked at.
//!
//! Files are read, and none is written but that of `--export`. Texts of runs, such as names, are data to the page: it never takes
//! them for markup.

mod collection;
mod curves;
mod details;
mod export;
mod http;
mod inside;
mod page;
mod secrets;
mod server;
#[cfg(unix)]
mod stopping;
mod summary;
mod walls;

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use clap::Args;

use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;
use collection::Collection;
use inside::Inside;
use server::Server;
use walls::Walls;

/// Arguments of `sconce board`.
#[derive(Debug, Args)]
pub(in crate::cli) struct BoardArgs {
    /// Directory to search, several levels deep.
    #[arg(default_value = "runs")]
    directory: PathBuf,
    /// Port on 127.0.0.1. Default: any that is free.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Writes the page with its data into one file instead, which needs neither this program nor a network.
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    export: Option<PathBuf>,
}

pub(in crate::cli) fn board(arguments: &BoardArgs) -> Result<u8, StartFailure> {
    let directory = &arguments.directory;
    let inside = Inside::open(directory).map_err(|error| {
        let problem = format!(
            "can't read the directory `{}`: {error}",
            directory.display()
        );
        let hint = "say where the runs are: `sconce board DIR`";
        StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
    })?;
    let collection = Collection::of(inside);
    if let Some(file) = &arguments.export {
        return export::export(&collection, file);
    }
    serve(arguments, collection)
}

/// Serves the page until a signal ends it.
fn serve(arguments: &BoardArgs, collection: Collection) -> Result<u8, StartFailure> {
    let refused = |what: &str, error: &dyn std::fmt::Display| {
        StartFailure::usage(vec![Diagnostic::new(format!("{what}: {error}"))])
    };
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port));
    let bound = bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) = bound.map_err(|error| {
        let what = format!("can't listen on port {} of 127.0.0.1", arguments.port);
        let problem = Diagnostic::new(format!("{what}: {error}"));
        StartFailure::usage(vec![problem.hint("without `--port` a free one is taken")])
    })?;
    let walls = Walls::new(port)
        .map_err(|error| refused("the system has no random numbers for the address", &error))?;
    let address = walls.address();
    let runs = collection.len();
    #[cfg(unix)]
    let end =
        stopping::End::prepare().map_err(|error| refused("can't wait for signals", &error))?;
    output::line(&format!(
        "{runs} {} in {}, until Ctrl-C, for whoever has this address: {address}",
        if runs == 1 { "run" } else { "runs" },
        arguments.directory.display()
    ));
    if !output::is_open() {
        return Ok(exit::DONE);
    }
    let server = Server::new(walls, collection);
    #[cfg(unix)]
    {
        std::thread::spawn(move || server.listen(&listener));
        Ok(end.wait())
    }
    #[cfg(not(unix))]
    {
        server.listen(&listener);
        Ok(exit::DONE)
    }
}
