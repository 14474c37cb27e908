//! How much is worked out for one call. What an agent writes in a few hundred bytes can ask for more computing than there is time for, and
//! for more memory than there is; whoever waits is then told that it was not worked out, and what was written is shown as it is.

use std::cell::Cell;

/// Bytes that are looked at or written, all together.
const MOST: usize = 256 << 20;
/// Most changes that are each shown by themselves.
pub(super) const MAX_SHOWN: usize = 64;
/// Most bytes of a file as it would be.
pub(super) const MAX_RESULT: usize = 16 << 20;
/// What one step costs beside the bytes that it is about.
pub(super) const STEP: usize = 32;

/// What may still be spent.
#[derive(Debug)]
pub(super) struct Work {
    left: Cell<usize>,
    shown: Cell<usize>,
}

/// It is more than is worked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Default for Work {
    fn default() -> Self {
        Self {
            left: Cell::new(MOST),
            shown: Cell::new(MAX_SHOWN),
        }
    }
}

impl Work {
    /// Takes note of work about this many bytes, before it is done.
    pub(super) fn spend(&self, bytes: usize) -> Result<(), TooMuch> {
        take(&self.left, bytes)
    }

    /// The same of `count` steps, and of `bytes` for each.
    pub(super) fn spend_steps(&self, count: usize, bytes: usize) -> Result<(), TooMuch> {
        self.spend(count.saturating_mul(bytes.saturating_add(STEP)))
    }

    /// Takes note of one more change that is shown by itself.
    pub(super) fn show(&self) -> Result<(), TooMuch> {
        take(&self.shown, 1)
    }
}

fn take(left: &Cell<usize>, cost: usize) -> Result<(), TooMuch> {
    let rest = left.get().checked_sub(cost);
    // What did not fit is not followed by what would.
    left.set(rest.unwrap_or(0));
    rest.map(|_| ()).ok_or(TooMuch)
}

/// The length of a text of `length` bytes in which `count` times `old` bytes are replaced by `new`; `None` where that is too much.
pub(super) fn length_with(length: usize, count: usize, old: usize, new: usize) -> Option<usize> {
    let kept = length.saturating_sub(count.checked_mul(old)?);
    let made = kept.checked_add(count.checked_mul(new)?)?;
    (made <= MAX_RESULT).then_some(made)
}
