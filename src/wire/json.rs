//! The JSON dialect of the spool: bytes in, single fields out.
//!
//! Documents come from programs that we do not control, so they are decoded lossily, bounded in size and depth, and read one
//! field at a time: a malformed optional field is an absent one, an unknown key is dropped. Two things are stricter than in
//! the peer: a key that stands twice in one object, at any depth, makes the document unusable (two readers of such a file may
//! see different values), and so does anything behind the first value.
//!
//! It does not know any document; the modules beside it do. It never panics, never recurses deeper than [`MAX_DEPTH`], and
//! its work grows with the size of a document, not with its depth: the looks at the whole document are single passes.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting of arrays and objects that is read. Real documents nest six levels deep.
pub const MAX_DEPTH: usize = 64;

/// Why bytes are not a document of this dialect. Its text is a fragment that fits behind "unusable: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// More bytes than the document kind may have.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit of this document kind, in bytes.
        limit: usize,
    },
    /// No bytes at all: a writer that was stopped, or a full disk.
    #[error("empty file")]
    Empty,
    /// A byte-order mark stands before the value.
    #[error("starts with a byte-order mark")]
    ByteOrderMark,
    /// Arrays and objects nest too deeply.
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// One object holds the same key twice.
    #[error("key {0:?} stands twice in one object")]
    DuplicateKey(String),
    /// Not JSON, or more than one value.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// JSON, but not an object.
    #[error("not a JSON object")]
    NotAnObject,
}

/// Decoded text of one document, checked for size, depth, doubled keys and syntax.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    text: Cow<'a, str>,
    /// Set as soon as any text had to be replaced, while decoding or while a field is read.
    replaced: Cell<bool>,
}

impl<'a> Document<'a> {
    /// Decodes `bytes`, of which there may be at most `limit`.
    pub(crate) fn decode(bytes: &'a [u8], limit: usize) -> Result<Self, Malformed> {
        if bytes.len() > limit {
            return Err(Malformed::TooLarge { limit });
        }
        if bytes.is_empty() {
            return Err(Malformed::Empty);
        }
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(Malformed::ByteOrderMark);
        }
        check_depth(bytes)?;
        let text = String::from_utf8_lossy(bytes);
        let replaced = Cell::new(matches!(text, Cow::Owned(_)));
        Ok(Self { text, replaced })
    }

    /// The top-level object, after a look at every object in the document.
    pub(crate) fn object(&self) -> Result<Fields<'_>, Malformed> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(|e| syntax(&e))?;
        if !raw.get().starts_with('{') {
            return Err(Malformed::NotAnObject);
        }
        check_keys(raw.get())?;
        Fields::read(raw, &self.replaced).ok_or(Malformed::NotAnObject)
    }

    /// The whole document as one value of any kind, after a look at every object in it.
    pub(crate) fn value(&self) -> Result<serde_json::Value, Malformed> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(|e| syntax(&e))?;
        check_keys(raw.get())?;
        serde_json::from_str(raw.get()).map_err(|e| syntax(&e))
    }

    /// Whether any text that was read so far differs from the bytes on disk.
    pub(crate) fn was_replaced(&self) -> bool {
        self.replaced.get()
    }
}

fn syntax(error: &serde_json::Error) -> Malformed {
    Malformed::Syntax(error.to_string())
}

/// Counts brackets outside strings, so that no recursive reader ever sees a deeper document.
fn check_depth(bytes: &[u8]) -> Result<(), Malformed> {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Malformed::TooDeep);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Looks for a key that stands twice in one object, in one pass over `text`, which is known to be valid JSON.
///
/// The keys of all objects that are open lie on one stack; a closing brace sorts those of its own object, so that equal ones
/// become neighbours. One set for each object would be an allocation for each pair of braces in a hostile document.
fn check_keys(text: &str) -> Result<(), Malformed> {
    let bytes = text.as_bytes();
    let mut keys: Vec<Cow<'_, str>> = Vec::new();
    // One entry for each open bracket: where its keys start on the stack, or `None` for an array.
    let mut open: Vec<Option<usize>> = Vec::new();
    let (mut at, mut at_key) = (0, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(bytes, at);
                if at_key {
                    keys.extend(text.get(at..end).and_then(read_key));
                }
                at = end;
                continue;
            }
            b'{' => {
                open.push(Some(keys.len()));
                at_key = true;
            }
            b'[' => {
                open.push(None);
                at_key = false;
            }
            b',' => at_key = matches!(open.last(), Some(Some(_))),
            b':' => at_key = false,
            b'}' | b']' => {
                if let Some(Some(start)) = open.pop() {
                    let own = keys.get_mut(start..).unwrap_or_default();
                    own.sort_unstable();
                    if let Some([key, _]) = own.windows(2).find(|pair| pair.first() == pair.last())
                    {
                        return Err(Malformed::DuplicateKey(shortened(key)));
                    }
                    keys.truncate(start);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Index behind the closing quote of the string that opens at `start`, or behind the end where it is not closed.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(found) if rest.get(found) == Some(&b'\\') => at += found + 2,
            Some(found) => return at + found + 1,
            None => return bytes.len().max(at),
        }
    }
}

/// Text of a key, quotes and all, that borrows where it holds no escape.
fn read_key(quoted: &str) -> Option<Cow<'_, str>> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<Key<'_>>(quoted)
        .ok()
        .map(|key| key.0)
}

/// A key as an error may carry it: a hostile one can be as long as the document.
fn shortened(key: &str) -> String {
    const LONGEST: usize = 64;
    match key.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", key.get(..end).unwrap_or_default()),
        None => key.to_owned(),
    }
}

type Member<'a> = (Cow<'a, str>, &'a RawValue);

fn members(raw: &RawValue) -> Result<Vec<Member<'_>>, serde_json::Error> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<Member<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(key) = map.next_key::<Key<'de>>()? {
                all.push((key.0, map.next_value()?));
            }
            Ok(all)
        }
    }
    serde_json::Deserializer::from_str(raw.get()).deserialize_map(Members)
}

/// A key that borrows from the document where it holds no escape. It is read as bytes, so that half a surrogate pair in the
/// key of some unknown member does not cost the whole document; the keys that we know hold none.
struct Key<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Key(match std::str::from_utf8(bytes) {
                    Ok(text) => Cow::Borrowed(text),
                    Err(_) => Cow::Owned(replace_surrogates(bytes)),
                }))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(replace_surrogates(bytes))))
            }
        }
        deserializer.deserialize_bytes(KeyVisitor)
    }
}

fn elements(raw: &RawValue) -> Result<Vec<&RawValue>, serde_json::Error> {
    struct Elements;
    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = seq.next_element()? {
                all.push(element);
            }
            Ok(all)
        }
    }
    serde_json::Deserializer::from_str(raw.get()).deserialize_seq(Elements)
}

/// One JSON object, of which single fields can be read. A read that finds another type gives `None`, as if the key were
/// absent; [`Fields::has`] tells the two apart.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    members: Vec<Member<'a>>,
    replaced: &'a Cell<bool>,
}

impl<'a> Fields<'a> {
    fn read(raw: &'a RawValue, replaced: &'a Cell<bool>) -> Option<Self> {
        raw.get()
            .starts_with('{')
            .then(|| members(raw).ok())
            .flatten()
            .map(|members| Self { members, replaced })
    }

    fn raw(&self, key: &str) -> Option<&'a RawValue> {
        self.members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| *value)
    }

    /// Whether the key is there, whatever its value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.raw(key).is_some()
    }

    /// Whether the key is there and its value is `null`.
    pub(crate) fn is_null(&self, key: &str) -> bool {
        self.raw(key).is_some_and(|raw| raw.get() == "null")
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.raw(key).and_then(|raw| read_text(raw, self.replaced))
    }

    /// A string or `null`; a missing key is neither.
    #[expect(
        clippy::option_option,
        reason = "absent, null and text are three different things on this wire"
    )]
    pub(crate) fn nullable_text(&self, key: &str) -> Option<Option<String>> {
        let raw = self.raw(key)?;
        if raw.get() == "null" {
            return Some(None);
        }
        read_text(raw, self.replaced).map(Some)
    }

    /// A boolean.
    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        match self.raw(key)?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Any JSON number, `1e400` included, as the nearest integer that a clock value can hold.
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        let text = self.raw(key)?.get();
        if !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return None;
        }
        if let Ok(whole) = text.parse::<i64>() {
            return Some(whole);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float cast saturates, which is what is wanted here"
        )]
        text.parse::<f64>().ok().map(|float| float as i64)
    }

    /// A finite JSON number, as an integer.
    pub(crate) fn finite_number(&self, key: &str) -> Option<i64> {
        let text = self.raw(key)?.get();
        text.parse::<f64>().ok().filter(|float| float.is_finite())?;
        self.number(key)
    }

    /// A number without a fractional part and not below zero. Beyond what a float holds exactly, only digits count.
    pub(crate) fn whole_number(&self, key: &str) -> Option<u64> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let text = self.raw(key)?.get();
        if let Ok(whole) = text.parse::<u64>() {
            return Some(whole);
        }
        let float = text.parse::<f64>().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked just above"
        )]
        ((0.0..=EXACT).contains(&float) && float.fract() == 0.0).then_some(float as u64)
    }

    /// A process id: a number without a fractional part, above zero, and within the kernel's own type. A greater one would
    /// turn negative on its way to a system call, and a negative one addresses a group of processes.
    pub(crate) fn process_id(&self, key: &str) -> Option<u32> {
        let whole = self.whole_number(key).filter(|pid| *pid > 0)?;
        i32::try_from(whole).ok().map(i32::unsigned_abs)
    }

    /// A nested object.
    pub(crate) fn object(&self, key: &str) -> Option<Fields<'a>> {
        Fields::read(self.raw(key)?, self.replaced)
    }

    /// An array of strings; one element of another type makes it malformed.
    pub(crate) fn texts(&self, key: &str) -> Option<Vec<String>> {
        self.array(key)?
            .into_iter()
            .map(|raw| read_text(raw, self.replaced))
            .collect()
    }

    /// An array of objects, each given to `read`; one that is no object, or that `read` refuses, makes it malformed. Objects
    /// are taken apart one after the other, so that a long array costs what is kept of it.
    pub(crate) fn each<T>(
        &self,
        key: &str,
        read: impl Fn(&Fields<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.array(key)?
            .into_iter()
            .map(|raw| read(&Fields::read(raw, self.replaced)?))
            .collect()
    }

    fn array(&self, key: &str) -> Option<Vec<&'a RawValue>> {
        let raw = self.raw(key)?;
        raw.get()
            .starts_with('[')
            .then(|| elements(raw).ok())
            .flatten()
    }
}

/// Reads one string. Half a surrogate pair, which JavaScript writes when it cuts inside a character, becomes U+FFFD.
fn read_text(raw: &RawValue, replaced: &Cell<bool>) -> Option<String> {
    if !raw.get().starts_with('"') {
        return None;
    }
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return Some(text);
    }
    // Read as bytes, `serde_json` lets a lone surrogate pass in its three-byte form (ED A0..BF 80..BF).
    let bytes: serde_bytes::ByteBuf = serde_json::from_str(raw.get()).ok()?;
    replaced.set(true);
    Some(replace_surrogates(&bytes))
}

/// Text of `bytes`, which are UTF-8 but for surrogates in their three-byte form; each becomes one U+FFFD.
fn replace_surrogates(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(all) => {
                text.push_str(all);
                break;
            }
            Err(error) => error.valid_up_to(),
        };
        let (good, bad) = rest.split_at(valid);
        text.push_str(&String::from_utf8_lossy(good));
        text.push(char::REPLACEMENT_CHARACTER);
        rest = bad.get(3..).unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: &str, read: impl FnOnce(&Fields<'_>) -> T) -> T {
        let document = Document::decode(json.as_bytes(), 1 << 20).unwrap();
        let fields = document.object().unwrap();
        read(&fields)
    }

    fn malformed(bytes: &[u8]) -> Malformed {
        match Document::decode(bytes, 1 << 20) {
            Err(malformed) => malformed,
            Ok(document) => document.object().map(|_| ()).unwrap_err(),
        }
    }

    #[test]
    fn top_level_must_be_one_object() {
        for json in ["null", "[]", "7", "\"x\"", "true"] {
            assert_eq!(malformed(json.as_bytes()), Malformed::NotAnObject, "{json}");
        }
        assert!(matches!(malformed(b"{"), Malformed::Syntax(_)));
        assert!(matches!(malformed(b"{}{}"), Malformed::Syntax(_)));
        assert!(matches!(malformed(b"{} x"), Malformed::Syntax(_)));
        assert!(matches!(
            malformed(b"{\"a\":\"x\ny\"}"),
            Malformed::Syntax(_)
        ));
        assert_eq!(malformed(b""), Malformed::Empty);
        assert_eq!(malformed(b"\xef\xbb\xbf{}"), Malformed::ByteOrderMark);
    }

    #[test]
    fn a_doubled_key_is_found_at_any_depth_and_through_escapes() {
        assert_eq!(
            malformed(br#"{"a":1,"\u0061":2}"#),
            Malformed::DuplicateKey("a".into())
        );
        assert_eq!(
            malformed(br#"{"x":[{"y":{"k":1,"k":1}}]}"#),
            Malformed::DuplicateKey("k".into())
        );
    }

    #[test]
    fn the_same_key_in_different_objects_is_no_doubled_key() {
        with(
            r#"{"a":{"a":[{"a":"a"},{"a":["a","a",{"a":1}]}]},"b":{"a":",{\"a\":\\"},"c":"b"}"#,
            |f| assert_eq!(f.text("c").as_deref(), Some("b")),
        );
        assert_eq!(
            malformed(br#"{"a":{"b":{}},"c":[{}],"a":1}"#),
            Malformed::DuplicateKey("a".into())
        );
    }

    #[test]
    fn an_error_carries_no_key_of_any_length() {
        let key = "é".repeat(100_000);
        let Malformed::DuplicateKey(named) =
            malformed(format!("{{\"{key}\":1,\"{key}\":2}}").as_bytes())
        else {
            panic!("not seen as doubled");
        };
        assert_eq!(named, format!("{}…", "é".repeat(64)));
    }

    #[test]
    fn half_a_surrogate_pair_in_an_unknown_key_costs_nothing() {
        with(r#"{"\ud83dx":{"\udc00":1},"a":"b"}"#, |f| {
            assert_eq!(f.text("a").as_deref(), Some("b"));
            assert!(f.has("\u{fffd}x"));
        });
    }

    #[test]
    fn a_process_id_fits_the_kernel_and_a_count_is_whole() {
        with(
            r#"{"max":2147483647,"over":2147483648,"minus_one":4294967295,"float":7.0,"exp":1e1,"zero":0,"half":1.5,
                "inf":1e400,"big":18446744073709551615,"bigger":18446744073709551616,"text":"7","bool":true}"#,
            |f| {
                assert_eq!(f.process_id("max"), Some(2_147_483_647));
                for key in [
                    "over",
                    "minus_one",
                    "zero",
                    "half",
                    "inf",
                    "big",
                    "text",
                    "bool",
                ] {
                    assert_eq!(f.process_id(key), None, "{key}");
                }
                assert_eq!(f.process_id("float"), Some(7));
                assert_eq!(f.process_id("exp"), Some(10));
                assert_eq!(f.whole_number("zero"), Some(0));
                assert_eq!(f.whole_number("big"), Some(u64::MAX));
                for key in ["half", "inf", "bigger", "text", "bool"] {
                    assert_eq!(f.whole_number(key), None, "{key}");
                }
            },
        );
    }

    #[test]
    fn nesting_is_bounded_before_any_recursion() {
        let closed = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(malformed(closed.as_bytes()), Malformed::TooDeep);
        let open = format!("{{\"a\":{}", "[".repeat(200_000));
        assert_eq!(malformed(open.as_bytes()), Malformed::TooDeep);
        // A bracket inside a string is text.
        with(&format!("{{\"a\":\"{}\\\"[\"}}", "[".repeat(500)), |f| {
            assert!(f.text("a").is_some());
        });
    }

    #[test]
    fn half_a_surrogate_pair_becomes_one_replacement_character() {
        let document = Document::decode(
            br#"{"a":"x\ud83dy","b":"\ud83d\ude00","c":"\udc00\ud800"}"#,
            1 << 20,
        )
        .unwrap();
        let fields = document.object().unwrap();
        assert_eq!(fields.text("b").as_deref(), Some("\u{1f600}"));
        assert!(!document.was_replaced());
        assert_eq!(fields.text("a").as_deref(), Some("x\u{fffd}y"));
        assert_eq!(fields.text("c").as_deref(), Some("\u{fffd}\u{fffd}"));
        assert!(document.was_replaced());
    }

    #[test]
    fn bad_utf8_is_replaced_and_noticed() {
        let document = Document::decode(b"{\"a\":\"x\xffy\"}", 1 << 20).unwrap();
        assert_eq!(
            document.object().unwrap().text("a").as_deref(),
            Some("x\u{fffd}y")
        );
        assert!(document.was_replaced());
    }

    #[test]
    fn each_type_is_read_alone() {
        with(
            r#"{"n":1e400,"i":7.5,"neg":-3,"s":"x","nul":null,"b":true,"l":["a"],"m":["a",1]}"#,
            |f| {
                assert_eq!(f.number("n"), Some(i64::MAX));
                assert_eq!(f.finite_number("n"), None);
                assert_eq!(f.number("i"), Some(7));
                assert_eq!(f.number("s"), None);
                assert_eq!(f.process_id("neg"), None);
                assert_eq!(f.process_id("i"), None);
                assert_eq!(f.nullable_text("nul"), Some(None));
                assert_eq!(f.nullable_text("gone"), None);
                assert_eq!(f.text("nul"), None);
                assert_eq!(f.boolean("b"), Some(true));
                assert_eq!(f.texts("l"), Some(vec!["a".to_owned()]));
                assert_eq!(f.texts("m"), None);
                assert!(f.has("nul") && !f.has("gone"));
            },
        );
    }
}
