//! Selects which of the manifest's hooks are used, for instance to find a faulty one.

use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
use sconce_base::nearest::nearest;

/// Selection of the manifest's hooks, as a command line's options have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Disables all hooks, and opens no plugin.
    pub no_plugins: bool,
    /// Disables all hooks but this one, by its name in the run; may be given several times.
    pub only: Vec<String>,
    /// Disables this hook, by its name in the run; may be given several times.
    pub skip: Vec<String>,
}

impl Selection {
    /// Removes the hooks that are not selected from a manifest.
    ///
    /// # Errors
    ///
    /// All unknown names, each with the nearest hook's name.
    pub fn apply(&self, manifest: &mut Manifest) -> Result<(), Vec<Diagnostic>> {
        let names: Vec<&str> = manifest
            .hooks
            .iter()
            .map(|hook| hook.name.as_str())
            .collect();
        let wanted = [("--only", &self.only), ("--skip", &self.skip)];
        let problems: Vec<Diagnostic> = wanted
            .into_iter()
            .flat_map(|(flag, hooks)| hooks.iter().map(move |name| (flag, name)))
            .filter(|(_, name)| !names.contains(&name.as_str()))
            .map(|(flag, name)| unknown(flag, name, &names))
            .collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        manifest.hooks.retain(|hook| {
            let is_meant = self.only.is_empty() || self.only.contains(&hook.name);
            is_meant && !self.no_plugins && !self.skip.contains(&hook.name)
        });
        Ok(())
    }
}

fn unknown(flag: &str, name: &str, names: &[&str]) -> Diagnostic {
    let shown = crate::diagnostic::shortened(name);
    let all: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let all = if all.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", all.join(", "))
    };
    let problem = Diagnostic::new(format!(
        "`{flag} {shown}`: the manifest has no hook of this name; {all}"
    ));
    match nearest(name, names.iter().copied()) {
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem,
    }
}
