//! presentation
