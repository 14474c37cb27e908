//! Every sealed answer below `fixtures/seal` is opened with its key and must come out as its file says.
//!
//! They were made with another implementation (Python and its `cryptography` package), so that both sides of the format are held
//! against something that is not ours. A file holds `why`, the `key`, the `response` as the text of a response file, and
//! `expect`: `sealed`, or the reason for which it does not count.
#![expect(clippy::disallowed_methods, reason = "reads fixtures")]

use std::path::Path;

use askrelay::wire::{ForwardedPermissionResponse, ServingKey};
use serde_json::Value;

#[test]
fn a_sealed_answer_counts_exactly_where_the_key_signed_what_it_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/seal");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        seen += 1;
        let fixture: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let text = |key: &str| fixture[key].as_str().unwrap();
        let key: ServingKey = text("key").parse().unwrap();
        let response = ForwardedPermissionResponse::from_json(text("response").as_bytes()).unwrap();
        let around = response.state;
        let outcome = match response.open_seal(&key) {
            Ok(sealed) => {
                assert_eq!(sealed.state, around, "{}", path.display());
                "sealed".to_owned()
            }
            Err(fault) => fault.to_string(),
        };
        assert_eq!(
            outcome,
            text("expect"),
            "{}: {}",
            path.display(),
            text("why")
        );
    }
    assert!(seen >= 25, "{seen} fixtures");
}
