//! What ties an answer to the exact bytes that were asked.
//!
//! The digest is BLAKE3 of a request file's bytes: computed by the requester over what it wrote, by the serving session over
//! what it read. It is no proof of who answered, for anybody who can write the spool can hash.

use std::fmt;
use std::str::FromStr;

/// BLAKE3 of a request file's bytes, written `blake3:<64 hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}", blake3::Hash::from_bytes(self.0).to_hex())
    }
}

/// A text is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a digest of the form blake3:<64 hex>")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let hex = text.strip_prefix("blake3:").ok_or(NotADigest)?;
        blake3::Hash::from_hex(hex)
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| NotADigest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back() {
        let digest = Digest::of(b"ask");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("blake3:00".parse::<Digest>(), Err(NotADigest));
        assert_eq!("sha256:00".parse::<Digest>(), Err(NotADigest));
    }
}
