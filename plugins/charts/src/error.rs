//! Why nothing could be drawn.

/// Why a chart or a grid could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The parts of a picture do not fit each other.
    #[error("cannot draw {what}: {why}")]
    Shape {
        /// What was to be drawn.
        what: &'static str,
        /// Which parts do not fit.
        why: String,
    },
    /// The drawing library refused.
    #[error("cannot draw the chart: {0}")]
    Drawing(String),
    /// The PNG encoder refused.
    #[error("cannot encode the PNG picture: {0}")]
    Png(#[from] png::EncodingError),
}

impl Error {
    /// The error of the drawing library, whatever its backend.
    pub(crate) fn drawing(error: impl std::error::Error) -> Self {
        Self::Drawing(error.to_string())
    }
}
