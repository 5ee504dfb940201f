//! Errors of drawing.

/// Reason why a chart or a grid could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The parts of a picture do not match.
    #[error("cannot draw {what}: {why}")]
    Shape {
        /// Kind of picture.
        what: &'static str,
        /// Which parts do not match.
        why: String,
    },
    /// The drawing library failed.
    #[error("cannot draw the chart: {0}")]
    Drawing(String),
    /// The PNG encoder failed.
    #[error("cannot encode the PNG picture: {0}")]
    Png(#[from] png::EncodingError),
}

impl Error {
    /// Converts an error of the drawing library, whatever its backend.
    pub(crate) fn drawing(error: impl std::error::Error) -> Self {
        Self::Drawing(error.to_string())
    }
}
