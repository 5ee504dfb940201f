//! Checks of paths on the command line. A shell expands `~` and `$VAR` in most places, but not in quotes,
//! and not `~` after `=`, as in `--output=~/runs`: a directory called `~` would be created.

use std::any::TypeId;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use sconce_plugin_api::ext::check_path;

/// Returns an error for the first path that contains something a shell should have expanded.
pub(in crate::cli) fn check(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        if !is_path || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            check_path(&value.to_string_lossy()).map_err(|reason| {
                let message = format!("the value of {argument}: {reason}");
                command.clone().error(ErrorKind::ValueValidation, message)
            })?;
        }
    }
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(());
    };
    match command.find_subcommand(name) {
        Some(command) => check(command, matches),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::cli::Cli;

    #[test]
    fn paths_that_only_a_shell_understands_are_refused_in_every_command() {
        for (line, expected) in [
            ("run a.json --output=~/x", Some("--output <DIR>")),
            ("run $HOME/a.json", Some("`$HOME`")),
            ("run a.json --layer ${HOME}/b.json", Some("`${HOME}`")),
            ("check a.json --plugins=~/p", Some("`~/p` begins with `~`")),
            ("install-plugins --to=~/p", Some("--to <DIR>")),
            ("compare a ~b", Some("`./~b`")),
            ("run a.json --output=./~x", None),
            ("run a.json --output=a~b", None),
            ("run costs-5$.json", None),
        ] {
            let mut command = Cli::command();
            command.build();
            let words = std::iter::once("sconce").chain(line.split(' '));
            let matches = command.clone().try_get_matches_from(words).expect(line);
            let found = super::check(&command, &matches).map_err(|error| error.to_string());
            match expected {
                None => assert_eq!(found, Ok(()), "{line}"),
                Some(words) => {
                    let found = found.expect_err(line);
                    assert!(found.contains(words), "{line}: {found}");
                }
            }
        }
    }
}
