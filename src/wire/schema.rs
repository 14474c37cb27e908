//! The documents of the wire as JSON Schema (draft 2020-12), for whoever writes a child or a parent of their own.
//!
//! A schema describes a document of which every known member counts. Readers are more lenient: a document that fails only in
//! optional members is used without them, and what no schema can say (size, depth, a key twice) is in `docs/wire.md`.

/// A document kind that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaName {
    /// A request file.
    Request,
    /// A response file.
    Response,
    /// A heartbeat file.
    Heartbeat,
    /// The value under `payload` of a request, alone.
    Payload,
    /// A line of the review log.
    Log,
    /// The file of a grant.
    Grant,
}

impl SchemaName {
    /// Every document kind that has a schema.
    const ALL: [Self; 6] = [
        Self::Request,
        Self::Response,
        Self::Heartbeat,
        Self::Payload,
        Self::Log,
        Self::Grant,
    ];

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Every name, in the order in which a help text lists them.
    pub fn names() -> [&'static str; 6] {
        Self::ALL.map(Self::name)
    }

    /// Name of this kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Heartbeat => "heartbeat",
            Self::Payload => "payload",
            Self::Log => "log",
            Self::Grant => "grant",
        }
    }

    /// The schema, ending in a newline.
    pub fn text(self) -> &'static str {
        match self {
            Self::Request => include_str!("schema/request.json"),
            Self::Response => include_str!("schema/response.json"),
            Self::Heartbeat => include_str!("schema/heartbeat.json"),
            Self::Payload => include_str!("schema/payload.json"),
            Self::Log => include_str!("schema/log.json"),
            Self::Grant => include_str!("schema/grant.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_gives_its_own_schema() {
        for name in SchemaName::names() {
            let schema = SchemaName::from_name(name).unwrap();
            let value: serde_json::Value = serde_json::from_str(schema.text()).unwrap();
            assert_eq!(value["$id"], format!("urn:askrelay:schema:{name}"));
            assert!(schema.text().ends_with("}\n"));
        }
        assert_eq!(SchemaName::from_name("Request"), None);
    }

    #[test]
    fn the_request_schema_holds_the_payload_schema() {
        let read = |schema: SchemaName| -> serde_json::Map<String, serde_json::Value> {
            serde_json::from_str(schema.text()).unwrap()
        };
        let mut alone = read(SchemaName::Payload);
        alone.retain(|key, _| !matches!(key.as_str(), "$schema" | "$id" | "title"));
        let request = read(SchemaName::Request);
        assert_eq!(
            request["$defs"]["payload"],
            serde_json::Value::Object(alone)
        );
    }
}
