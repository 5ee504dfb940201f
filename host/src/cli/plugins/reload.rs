//! `sconce reload`: gives the hooks of a running run new libraries.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::reload::request::{ReloadRequest, answered, ask};
use crate::session::{StartFailure, is_in_use};

/// How often an answer is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Arguments of `sconce reload`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReloadArgs {
    /// Directory of the run.
    run: PathBuf,
    /// The hook whose library is loaded again. Default: every hook whose library has changed.
    #[arg(long, value_name = "NAME")]
    hook: Option<String>,
    /// Waits until the run has reached the place for it (`reload_at` in the manifest), and prints what became of it.
    #[arg(long)]
    wait: bool,
}

pub(in crate::cli) fn reload(arguments: &ReloadArgs) -> Result<u8, StartFailure> {
    let run = arguments.run.as_path();
    let refused = |problem: Diagnostic| Err(StartFailure::usage(vec![problem]));
    if !is_in_use(run) {
        let problem = format!("no run is going on in `{}`", run.display());
        return refused(
            Diagnostic::new(problem)
                .hint("`sconce run --resume` takes the libraries that are there by then"),
        );
    }
    let id = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
    let request = ReloadRequest {
        id: id.clone(),
        hook: arguments.hook.clone(),
    };
    if let Err(error) = ask(run, &request) {
        return refused(Diagnostic::new(format!("the run can't be asked: {error}")));
    }
    if !arguments.wait {
        output::line("asked; the run says what becomes of it");
        return Ok(exit::DONE);
    }
    let mut looked = Instant::now();
    let answer = loop {
        if let Some(answer) = answered(run, &id) {
            break answer;
        }
        if looked.elapsed() > Duration::from_secs(1) {
            looked = Instant::now();
            if !is_in_use(run) {
                let problem = "the run has ended before it could load anything";
                return refused(Diagnostic::new(problem));
            }
        }
        std::thread::sleep(LOOK);
    };
    let mut code = exit::DONE;
    for result in &answer.results {
        if result.is_reloaded {
            output::line(&format!(
                "`{}` is reloaded: {}",
                result.hook, result.message
            ));
        } else {
            code = exit::PLUGIN;
            let problem = format!("`{}` is not reloaded: {}", result.hook, result.message);
            output::diagnostics(&[Diagnostic::new(problem)]);
        }
    }
    if answer.results.is_empty() {
        output::line("no library has changed");
    }
    Ok(code)
}
