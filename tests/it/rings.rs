//! What holds of the source tree itself.
