//! Why a list's hooks can't be used.

use sconce_manifest::diagnostic::Diagnostic;

/// Problems of a list's hooks.
#[derive(Clone, Debug, Default)]
pub struct UnusableHooks {
    /// All problems.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the first of them is one of the document, not of a plugin.
    pub is_usage: bool,
    /// Whether a hook's process has ended.
    pub has_accident: bool,
}

impl UnusableHooks {
    /// Problems with the document.
    pub(super) fn usage(diagnostics: Vec<Diagnostic>) -> UnusableHooks {
        UnusableHooks {
            diagnostics,
            is_usage: true,
            has_accident: false,
        }
    }

    /// Problems with plugins.
    pub(super) fn plugin(diagnostics: Vec<Diagnostic>) -> UnusableHooks {
        UnusableHooks {
            diagnostics,
            ..UnusableHooks::default()
        }
    }

    /// Adds a problem.
    pub(super) fn add(&mut self, problem: Diagnostic) {
        self.diagnostics.push(problem);
    }

    /// Combines the problems of two lists of them.
    pub(super) fn and(mut self, other: UnusableHooks) -> UnusableHooks {
        if self.diagnostics.is_empty() {
            self.is_usage = other.is_usage;
        }
        self.has_accident |= other.has_accident;
        self.diagnostics.extend(other.diagnostics);
        self
    }
}
