//! Where the references of a JSON schema lead: pointers, anchors and ids within the one document. Nothing is fetched.

use std::collections::HashMap;

use serde_json::Value;

use crate::{Failure, Outcome};

/// The base of a document that names none.
const NAMELESS: &str = "schema:///";

/// A place of the document: a JSON pointer, escaped.
pub type Place = String;

pub struct References<'a> {
    root: &'a Value,
    /// Absolute addresses, with and without an anchor behind '#'.
    places: HashMap<String, Place>,
    /// Base address of each place that has an id.
    bases: HashMap<Place, String>,
    /// Places with a dynamic anchor of that name.
    dynamic: HashMap<String, Vec<Place>>,
}

impl<'a> References<'a> {
    pub fn of(root: &'a Value) -> References<'a> {
        let mut all = References { root, places: HashMap::new(), bases: HashMap::new(), dynamic: HashMap::new() };
        all.bases.insert(Place::new(), NAMELESS.to_string());
        all.places.insert(NAMELESS.to_string(), Place::new());
        all.note(root, Place::new(), NAMELESS.to_string());
        all
    }

    fn note(&mut self, node: &Value, place: Place, mut base: String) {
        match node {
            Value::Object(object) => {
                if let Some(id) = object.get("$id").and_then(Value::as_str) {
                    base = resolved(&base, id.trim_end_matches('#'));
                    self.places.insert(base.clone(), place.clone());
                    self.bases.insert(place.clone(), base.clone());
                }
                for key in ["$anchor", "$dynamicAnchor"] {
                    let Some(anchor) = object.get(key).and_then(Value::as_str) else { continue };
                    self.places.insert(format!("{base}#{anchor}"), place.clone());
                    if key == "$dynamicAnchor" {
                        self.dynamic.entry(anchor.to_string()).or_default().push(place.clone());
                    }
                }
                for (key, value) in object {
                    // What stands there is data, and only looks like a schema.
                    if !matches!(key.as_str(), "const" | "enum" | "default" | "examples") {
                        self.note(value, child(&place, key), base.clone());
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.note(item, child(&place, &i.to_string()), base.clone());
                }
            }
            _ => {}
        }
    }

    fn base_of(&self, place: &str) -> &str {
        let mut prefix = place;
        loop {
            if let Some(base) = self.bases.get(prefix) {
                return base;
            }
            prefix = &prefix[..prefix.rfind('/').expect("the root has a base")];
        }
    }

    /// Where a reference at `from` leads.
    pub fn find(&self, reference: &str, from: &str) -> Outcome<(Place, &'a Value)> {
        let missing = || Failure::Refused(format!("$ref: '{reference}' leads to nothing in this schema"));
        let address = resolved(self.base_of(from), reference);
        let (document, fragment) = address.split_once('#').unwrap_or((&address, ""));
        let place = if fragment.is_empty() || fragment.starts_with('/') {
            let start = self.places.get(document).ok_or_else(missing)?;
            format!("{start}{}", percent_decoded(fragment))
        } else {
            self.places.get(&address).ok_or_else(missing)?.clone()
        };
        let value = self.root.pointer(&place).ok_or_else(missing)?;
        Ok((place, value))
    }

    /// A dynamic reference is a plain one where only one place can be meant.
    pub fn find_dynamic(&self, reference: &str, from: &str) -> Outcome<(Place, &'a Value)> {
        let anchor = reference.rsplit_once('#').map_or("", |(_, fragment)| fragment);
        match self.dynamic.get(anchor).map_or(0, Vec::len) {
            0 | 1 => self.find(reference, from),
            _ => Err(Failure::Refused(format!("$dynamicRef: '{reference}' depends on where it is reached from"))),
        }
    }
}

pub fn child(place: &str, key: &str) -> Place {
    format!("{place}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An address relative to another, by the parts of RFC 3986 that schemas use.
fn resolved(base: &str, reference: &str) -> String {
    let base = base.split('#').next().unwrap_or("");
    if reference.is_empty() || reference.starts_with('#') {
        return format!("{base}{reference}");
    }
    let scheme = reference.split(['/', '?', '#']).next().unwrap_or("");
    if scheme.contains(':') {
        return reference.to_string();
    }
    let path_start = base.find("://").map_or(0, |at| at + 3);
    let path_start = base[path_start..].find('/').map_or(base.len(), |at| path_start + at);
    let (host, path) = base.split_at(path_start);
    let directory = &path[..path.rfind('/').unwrap_or(0)];
    let joined = match reference.starts_with('/') {
        true => reference.to_string(),
        false => format!("{directory}/{reference}"),
    };
    let (joined, fragment) = joined.split_once('#').map_or((joined.as_str(), None), |(a, b)| (a, Some(b)));
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    let fragment = fragment.map_or(String::new(), |fragment| format!("#{fragment}"));
    format!("{host}/{}{fragment}", parts.join("/"))
}
