//! One payload, several renderers: what a person, an agent and the review log get to read of an ask.
//!
//! The facts are the payload's; each renderer here lays the same facts out for its reader. Text of an ask is hostile until it
//! went through [`text`], and it goes through exactly once, in the renderer.
//!
//! It does no I/O, asks no clock, draws no frame, and decides nothing: an answer line that is not clearly one of the offered
//! choices is no choice.
//!
//! Invariants: no renderer gives out a character that is invisible or that moves others; no renderer drops a core fact; a
//! command never reaches an agent-facing text; what a model wrote is marked as such and stays out of logs and denials.

pub mod broadcast;
pub mod denial;
pub mod dialog;
pub mod evidence;
pub mod explain;
pub mod fit;
pub mod form;
pub mod highlight;
pub mod json;
pub mod review;
pub mod review_line;
pub mod runs;
pub mod secrets;
pub mod select;
pub mod table;
pub mod text;
