//! How an entry of `hooks` is written.

use crate::json_path;

/// How an entry says which hook it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryForm {
    /// By the hook's name.
    #[default]
    Name,
    /// By a Python file: its `config` is that of the hook in the file.
    Script,
}

impl EntryForm {
    /// The place in the manifest of a part of the hook's configuration; the configuration itself if `path` is empty.
    ///
    /// ```
    /// use sconce_manifest::EntryForm;
    ///
    /// let place = |form: EntryForm, path| form.place_in_config("hooks[1]", path);
    /// assert_eq!(place(EntryForm::Name, "size"), "hooks[1].config.size");
    /// assert_eq!(place(EntryForm::Script, "config.edges[2]"), "hooks[1].config.edges[2]");
    /// assert_eq!(place(EntryForm::Script, "file"), "hooks[1].hook");
    /// ```
    pub fn place_in_config(self, entry: &str, path: &str) -> String {
        let own = match self {
            EntryForm::Name => Some(path),
            EntryForm::Script => path.strip_prefix("config"),
        };
        match own {
            Some(own) => json_path::below(&format!("{entry}.config"), own.trim_start_matches('.')),
            None => format!("{entry}.hook"),
        }
    }
}
