//! A validator for the part of JSON Schema that our own schemas use. A keyword that it does not know is an error, never
//! ignored, so that a schema cannot promise what nothing checks.

use serde_json::{Map, Value};

/// Why `value` does not fit `schema`, as one text for each fault; empty where it fits.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, schema, value, "", &mut faults);
    faults
}

fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let mut faults = Vec::new();
    check(root, schema, value, "", &mut faults);
    faults.is_empty()
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let Value::Object(keywords) = schema else {
        panic!("a schema that is no object: {schema}");
    };
    for (keyword, argument) in keywords {
        let fault = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "default" | "deprecated" => {
                None
            }
            "$ref" => {
                let pointer = text(argument).strip_prefix('#').expect("a local $ref");
                let target = root
                    .pointer(pointer)
                    .unwrap_or_else(|| panic!("{pointer} leads nowhere"));
                check(root, target, value, at, faults);
                None
            }
            "properties" => {
                let object = Some(value).and_then(Value::as_object);
                for (key, member) in argument.as_object().expect("an object of schemas") {
                    if let Some(inner) = object.and_then(|object| object.get(key)) {
                        check(root, member, inner, &format!("{at}/{key}"), faults);
                    }
                }
                None
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                let others = value.as_object().into_iter().flatten();
                for (key, inner) in
                    others.filter(|(key, _)| !known.is_some_and(|known| known.contains_key(*key)))
                {
                    if *argument == Value::Bool(false) {
                        faults.push(format!("{at}: no member {key:?} is known"));
                    } else {
                        check(root, argument, inner, &format!("{at}/{key}"), faults);
                    }
                }
                None
            }
            "propertyNames" => {
                for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
                    check(root, argument, &Value::from(key.as_str()), at, faults);
                }
                None
            }
            "prefixItems" => {
                let first = value.as_array().into_iter().flatten();
                for (index, (inner, schema)) in first.zip(list(argument)).enumerate() {
                    check(root, schema, inner, &format!("{at}/{index}"), faults);
                }
                None
            }
            "items" => {
                for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, argument, inner, &format!("{at}/{index}"), faults);
                }
                None
            }
            _ => fault(root, keyword, argument, value),
        };
        faults.extend(fault.map(|fault| format!("{at}: {fault}")));
    }
}

/// The fault of one keyword that looks at the value as a whole.
fn fault(root: &Value, keyword: &str, argument: &Value, value: &Value) -> Option<String> {
    let good = match keyword {
        "type" => match argument.as_array() {
            Some(types) => types.iter().any(|name| has_type(text(name), value)),
            None => has_type(text(argument), value),
        },
        "required" => value.as_object().is_none_or(|object| {
            list(argument)
                .iter()
                .all(|key| object.contains_key(text(key)))
        }),
        "enum" => list(argument).contains(value),
        "const" => argument == value,
        "anyOf" => list(argument).iter().any(|one| fits(root, one, value)),
        "oneOf" => {
            let fitting = list(argument).iter().filter(|one| fits(root, one, value));
            fitting.count() == 1
        }
        "not" => !fits(root, argument, value),
        "minLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() as u64 >= count(argument)),
        "maxLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() as u64 <= count(argument)),
        "pattern" => value
            .as_str()
            .is_none_or(|value| matches(text(argument), value)),
        "minItems" => value
            .as_array()
            .is_none_or(|items| items.len() as u64 >= count(argument)),
        "maxItems" => value
            .as_array()
            .is_none_or(|items| items.len() as u64 <= count(argument)),
        "minimum" => value
            .as_f64()
            .is_none_or(|number| number >= argument.as_f64().unwrap()),
        "maximum" => value
            .as_f64()
            .is_none_or(|number| number <= argument.as_f64().unwrap()),
        other => panic!("this validator does not know the keyword {other:?}"),
    };
    (!good).then(|| format!("{keyword} {argument}"))
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64()
                || value.is_u64()
                || value.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        other => panic!("no such type: {other}"),
    }
}

/// Patterns are a sequence of literal characters and of classes, each class with a count: `^blake3:[0-9a-f]{64}$`.
fn matches(pattern: &str, value: &str) -> bool {
    let mut pattern = pattern
        .strip_prefix('^')
        .and_then(|pattern| pattern.strip_suffix('$'))
        .unwrap_or_else(|| panic!("{pattern} is not anchored"));
    let mut value = value;
    while let Some(first) = pattern.chars().next() {
        if first != '[' {
            assert!(!"\\.*+?(){}|".contains(first), "no literal: {first}");
            let Some(rest) = value.strip_prefix(first) else {
                return false;
            };
            (pattern, value) = (&pattern[first.len_utf8()..], rest);
            continue;
        }
        let (class, rest) = pattern[1..].split_once("]{").expect("a class with a count");
        let (counts, rest) = rest.split_once('}').expect("a closed count");
        let (least, most) = counts.split_once(',').unwrap_or((counts, counts));
        let end = value
            .find(|c| !in_class(class, c))
            .unwrap_or(value.len())
            .min(most.parse().unwrap());
        if end < least.parse().unwrap() {
            return false;
        }
        (pattern, value) = (rest, &value[end..]);
    }
    value.is_empty()
}

/// Whether a class such as `A-Z._-` holds `c`.
fn in_class(class: &str, c: char) -> bool {
    let class: Vec<char> = class.chars().collect();
    let mut at = 0;
    while at < class.len() {
        if at + 2 < class.len() && class[at + 1] == '-' {
            if (class[at]..=class[at + 2]).contains(&c) {
                return true;
            }
            at += 3;
        } else {
            if class[at] == c {
                return true;
            }
            at += 1;
        }
    }
    false
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text in a schema")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list in a schema")
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count in a schema")
}

#[test]
fn each_keyword_refuses_what_it_should() {
    let cases = [
        (r#"{"type":"integer"}"#, "3.0", "3.5"),
        (r#"{"type":["string","null"]}"#, "null", "1"),
        (r#"{"required":["a"]}"#, r#"{"a":null}"#, "{}"),
        (
            r#"{"properties":{"a":{"const":1}}}"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2}"#,
        ),
        (r#"{"maxLength":1}"#, r#""ä""#, r#""ab""#),
        (
            r#"{"properties":{"a":{}},"additionalProperties":false}"#,
            r#"{"a":1}"#,
            r#"{"b":1}"#,
        ),
        (
            r#"{"properties":{"a":{}},"additionalProperties":{"const":1}}"#,
            r#"{"a":2,"b":1}"#,
            r#"{"b":2}"#,
        ),
        (
            r#"{"propertyNames":{"minLength":1}}"#,
            r#"{"a":1}"#,
            r#"{"":1}"#,
        ),
        (r#"{"prefixItems":[{"const":1}]}"#, "[1,2]", "[2,1]"),
        (r#"{"items":{"minLength":1}}"#, r#"["a"]"#, r#"["a",""]"#),
        (r#"{"enum":[1,null]}"#, "null", "2"),
        (r#"{"anyOf":[{"const":1},{"const":2}]}"#, "2", "3"),
        (
            r#"{"oneOf":[{"type":"number"},{"type":"integer"}]}"#,
            "1.5",
            "1",
        ),
        (r#"{"not":{"const":1}}"#, "2", "1"),
        (r#"{"minItems":1,"maxItems":2}"#, "[1]", "[1,2,3]"),
        (r#"{"minimum":0,"maximum":9}"#, "9", "10"),
        (
            r#"{"pattern":"^a:[0-9._-]{1,3}$"}"#,
            r#""a:1-.""#,
            r#""a:""#,
        ),
        (r#"{"pattern":"^[a-c]{2}$"}"#, r#""ac""#, r#""acb""#),
        (
            r##"{"$defs":{"x":{"const":1}},"$ref":"#/$defs/x"}"##,
            "1",
            "2",
        ),
    ];
    for (schema, good, bad) in cases {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(faults(&read(schema), &read(good)), [""; 0], "{schema}");
        assert!(!faults(&read(schema), &read(bad)).is_empty(), "{schema}");
    }
}

#[test]
#[should_panic(expected = "does not know the keyword")]
fn an_unknown_keyword_is_an_error() {
    let mut schema = Map::new();
    schema.insert("uniqueItems".to_owned(), Value::Bool(true));
    faults(&Value::Object(schema), &Value::Null);
}
