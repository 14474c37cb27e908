//! What ties an answer to the exact bytes that were asked, and to the session that gave it.
//!
//! The digest is BLAKE3 of a request file's bytes: computed by the requester over what it wrote, by the serving session over
//! what it read. It is no proof of who answered, for anybody who can write the spool can hash.
//!
//! The seal is. A serving session signs its answers with a key that it makes at its start and that never leaves its memory; a
//! requester that was told the public half by whoever started it takes no other answer. A sealed answer is a DSSE v1 envelope
//! (<https://github.com/secure-systems-lab/dsse>) around the bytes of the answer itself, and what counts is what stands in it.
//!
//! Nothing here makes randomness, keeps a key on disk, or knows which key is to be believed.
//!
//! Invariants: a private key cannot be printed, copied or serialised, and is wiped when it is dropped; a signature is checked
//! before a byte of what it signs is parsed; a weak key is no key.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::Serialize;
use zeroize::Zeroizing;

use super::json::Fields;

/// Type of what is sealed, as DSSE wants one.
pub const SEAL_PAYLOAD_TYPE: &str = "application/vnd.askrelay.response+json";

/// Length of the seed of a key, in bytes.
pub const SEAL_SEED_BYTES: usize = 32;

/// How many signatures of one envelope are looked at.
const MAX_SIGNATURES: usize = 4;

/// Prefix of a key as text: its algorithm.
const KEY_PREFIX: &str = "ed25519:";

/// BLAKE3 of a request file's bytes, written `blake3:<64 hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Digest of `value` as JSON; `None` for one that cannot be written so. It is written nowhere for that.
    pub(crate) fn of_json(value: &impl serde::Serialize) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        serde_json::to_writer(&mut hasher, value).ok()?;
        Some(Self(*hasher.finalize().as_bytes()))
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

/// The private key of a serving session. It lives in memory only.
pub struct SealKey(Box<SigningKey>);

impl SealKey {
    /// The key that grows from `seed`, which must be random and known to nobody.
    pub fn from_seed(seed: &Zeroizing<[u8; SEAL_SEED_BYTES]>) -> Self {
        Self(Box::new(SigningKey::from_bytes(seed)))
    }

    /// What verifies its seals.
    pub fn public(&self) -> ServingKey {
        ServingKey(self.0.verifying_key())
    }

    /// Seals the bytes of an answer.
    pub(super) fn seal(&self, payload: &[u8]) -> Envelope {
        let signature = self.0.sign(&pre_authentication(payload));
        Envelope {
            payload_type: SEAL_PAYLOAD_TYPE.to_owned(),
            payload: payload.to_vec(),
            signatures: vec![signature],
        }
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey(of {})", self.public())
    }
}

/// The public key of a serving session, written `ed25519:<base64>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingKey(VerifyingKey);

impl fmt::Display for ServingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_PREFIX}{}", BASE64.encode(self.0.as_bytes()))
    }
}

/// A text is no key of a serving session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a key of the form ed25519:<base64 of 32 bytes>")]
pub struct NotAKey;

impl FromStr for ServingKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let encoded = text.strip_prefix(KEY_PREFIX).ok_or(NotAKey)?;
        let bytes = BASE64.decode(encoded).map_err(|_| NotAKey)?;
        let bytes = bytes.as_slice().try_into().map_err(|_| NotAKey)?;
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| NotAKey)?;
        // A weak key verifies what nobody signed.
        if key.is_weak() {
            return Err(NotAKey);
        }
        Ok(Self(key))
    }
}

/// A DSSE envelope: what was signed, and its signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    payload_type: String,
    payload: Vec<u8>,
    signatures: Vec<Signature>,
}

impl Envelope {
    /// Reads an envelope. Anything malformed gives `None`; a signature that is none of this algorithm's counts as none.
    pub(super) fn read(fields: &Fields<'_>) -> Option<Self> {
        let signatures = fields.each("signatures", |signature| {
            Some(signature.text("sig").and_then(|text| {
                let bytes = BASE64.decode(text).ok()?;
                Signature::from_slice(&bytes).ok()
            }))
        })?;
        Some(Self {
            payload_type: fields.text("payloadType")?,
            payload: BASE64.decode(fields.text("payload")?).ok()?,
            signatures: signatures
                .into_iter()
                .flatten()
                .take(MAX_SIGNATURES)
                .collect(),
        })
    }

    /// What stands in the envelope, if `key` signed it as an answer.
    pub(super) fn open(&self, key: &ServingKey) -> Result<&[u8], SealFault> {
        if self.payload_type != SEAL_PAYLOAD_TYPE {
            return Err(SealFault::OtherType(self.payload_type.clone()));
        }
        let signed = pre_authentication(&self.payload);
        let is_good = |signature| key.0.verify_strict(&signed, signature).is_ok();
        if self.signatures.iter().any(is_good) {
            Ok(&self.payload)
        } else {
            Err(SealFault::NotSigned)
        }
    }

    pub(super) fn to_out(&self) -> EnvelopeOut<'_> {
        EnvelopeOut {
            payload_type: &self.payload_type,
            payload: BASE64.encode(&self.payload),
            signatures: self
                .signatures
                .iter()
                .map(|signature| SignatureOut {
                    sig: BASE64.encode(signature.to_bytes()),
                })
                .collect(),
        }
    }
}

/// What is really signed: type and payload with their lengths, so that neither can be read as a part of the other.
fn pre_authentication(payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {SEAL_PAYLOAD_TYPE} {} ",
        SEAL_PAYLOAD_TYPE.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvelopeOut<'a> {
    payload_type: &'a str,
    payload: String,
    signatures: Vec<SignatureOut>,
}

#[derive(Serialize)]
struct SignatureOut {
    sig: String,
}

/// Why an answer does not count for a requester that takes sealed ones only. Its text is a fragment that fits behind "refused: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealFault {
    /// There is no seal, or none that could be read.
    #[error("it carries no seal")]
    Missing,
    /// The envelope says that it holds something else.
    #[error("its seal is of the type {0:?}")]
    OtherType(String),
    /// None of its signatures is one of the pinned key.
    #[error("its seal is not one of the pinned key")]
    NotSigned,
    /// What was sealed is no answer.
    #[error("what was sealed is unusable: {0}")]
    Payload(super::Unusable),
    /// The answer around the seal says something else than the sealed one.
    #[error("what stands around the seal is not what was sealed")]
    Disagrees,
    /// The sealed answer does not say to which bytes it is one.
    #[error("what was sealed names no request")]
    NoDigest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Document;

    fn key(seed: u8) -> SealKey {
        SealKey::from_seed(&Zeroizing::new([seed; SEAL_SEED_BYTES]))
    }

    fn read_back(envelope: &Envelope) -> Option<Envelope> {
        let text = serde_json::to_vec(&envelope.to_out()).unwrap();
        let document = Document::decode(&text, 1 << 20).unwrap();
        Envelope::read(&document.object().unwrap())
    }

    #[test]
    fn a_digest_reads_back() {
        let digest = Digest::of(b"ask");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("blake3:00".parse::<Digest>(), Err(NotADigest));
        assert_eq!("sha256:00".parse::<Digest>(), Err(NotADigest));
    }

    #[test]
    fn a_key_reads_back_and_what_is_none_does_not() {
        let public = key(1).public();
        assert_eq!(public.to_string().parse(), Ok(public));
        let all = |byte: u8| format!("ed25519:{}", BASE64.encode([byte; 32]));
        let mut identity = [0; 32];
        identity[0] = 1;
        let weak = format!("ed25519:{}", BASE64.encode(identity));
        for text in [
            "",
            "ed25519:",
            "ed25519:AAAA",
            "rsa:AAAA",
            &all(0),
            &weak,
            &format!("{} ", key(1).public()),
        ] {
            assert_eq!(text.parse::<ServingKey>(), Err(NotAKey), "{text:?}");
        }
    }

    #[test]
    fn a_private_key_cannot_be_printed() {
        let key = key(7);
        let shown = format!("{key:?}");
        assert_eq!(shown, format!("SealKey(of {})", key.public()));
    }

    /// Made with another implementation (Python, cryptography 44): seed 07 repeated, payload `{}`.
    #[test]
    fn a_seal_is_what_the_standard_says() {
        let envelope = key(7).seal(b"{}");
        assert_eq!(
            pre_authentication(b"{}"),
            b"DSSEv1 38 application/vnd.askrelay.response+json 2 {}"
        );
        assert_eq!(
            serde_json::to_value(envelope.to_out()).unwrap(),
            serde_json::json!({
                "payloadType": SEAL_PAYLOAD_TYPE,
                "payload": "e30=",
                "signatures": [{"sig": include_str!("../../fixtures/seal/empty_object.sig").trim()}],
            })
        );
    }

    #[test]
    fn only_what_the_key_signed_comes_out() {
        let envelope = read_back(&key(1).seal(b"an answer")).unwrap();
        assert_eq!(envelope.open(&key(1).public()), Ok(&b"an answer"[..]));
        assert_eq!(envelope.open(&key(2).public()), Err(SealFault::NotSigned));
        let mut edited = envelope.clone();
        edited.payload = b"an Answer".to_vec();
        assert_eq!(edited.open(&key(1).public()), Err(SealFault::NotSigned));
        let mut other = envelope.clone();
        other.payload_type = "text/plain".to_owned();
        assert_eq!(
            other.open(&key(1).public()),
            Err(SealFault::OtherType("text/plain".to_owned()))
        );
        let mut bare = envelope;
        bare.signatures.clear();
        assert_eq!(bare.open(&key(1).public()), Err(SealFault::NotSigned));
    }

    #[test]
    fn one_good_signature_among_strangers_is_enough() {
        let mut envelope = key(1).seal(b"x");
        let strange = key(2).seal(b"x").signatures;
        envelope.signatures.splice(0..0, strange);
        let envelope = read_back(&envelope).unwrap();
        assert!(envelope.open(&key(1).public()).is_ok());
    }
}
