//! Sections of a checkpoint's tensors: the first component of their full names.

/// Section of a checkpoint's tensors. A full name is the section's name, a slash, and the tensor's
/// own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The model's parameters and buffers.
    Parameters,
    /// The optimizer's state.
    Optimizer,
    /// The accumulated gradients of an update in progress.
    Accumulated,
    /// Tensors that hooks have published.
    Published,
    /// Tensors that hooks have added to this checkpoint.
    Extra,
    /// Hook states that are not JSON.
    Hooks,
}

impl Section {
    /// All sections.
    pub const ALL: [Section; 6] = [
        Section::Parameters,
        Section::Optimizer,
        Section::Accumulated,
        Section::Published,
        Section::Extra,
        Section::Hooks,
    ];

    /// Name with the slash, as stored in files.
    pub const fn prefix(self) -> &'static str {
        match self {
            Section::Parameters => "parameters/",
            Section::Optimizer => "optimizer/",
            Section::Accumulated => "accumulated/",
            Section::Published => "published/",
            Section::Extra => "extra/",
            Section::Hooks => "hooks/",
        }
    }

    /// Returns the full name of a tensor of this section.
    ///
    /// ```
    /// use sconce_trainer::checkpoint::Section;
    ///
    /// let full = Section::Parameters.full_name("fc1.weight");
    /// assert_eq!(full, "parameters/fc1.weight");
    /// assert_eq!(Section::Parameters.own_name(&full), Some("fc1.weight"));
    /// assert_eq!(Section::Optimizer.own_name(&full), None);
    /// ```
    pub fn full_name(self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }

    /// Returns the own name of a tensor if it belongs to this section.
    pub fn own_name(self, full: &str) -> Option<&str> {
        full.strip_prefix(self.prefix())
    }
}
