//! JSON schemas in the keywords that llguidance knows: references become definitions, and what it lacks (not, if,
//! dependencies, property names, unevaluated parts) is said in what it has, where that can be said exactly. What cannot is
//! an error that names the keyword.

use std::collections::HashMap;

use serde_json::{json, Map, Value};

use crate::schema_cases::Case;
use crate::schema_refs::{child, Place, References};
use crate::{Failure, Outcome};

/// Rewritten parts of one schema, at most: what is said in other words can be long.
const MOST_PARTS: usize = 50_000;

const PLAIN: [&str; 17] = [
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "required",
    "minProperties",
    "maxProperties",
];
const COUNTS: [&str; 6] = ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
const WITH_SCHEMA: [&str; 3] = ["items", "additionalItems", "additionalProperties"];
const WITH_NAMED: [&str; 2] = ["properties", "patternProperties"];

pub(crate) type Object = Map<String, Value>;

pub(crate) struct Rewriter<'a> {
    pub(crate) refs: References<'a>,
    /// Each place that a reference leads to, and its definition's name; those before `done` are written.
    targets: Vec<(Place, &'a Value)>,
    names: HashMap<Place, usize>,
    splits_one_of: bool,
    lenient: bool,
    siblings_count: bool,
    parts: usize,
    pub(crate) depth: usize,
}

/// `splits_one_of`: every branch of a oneOf excludes the others in words; else they must be seen to differ.
pub fn rewritten(root: &Value, splits_one_of: bool) -> Outcome<Value> {
    let draft = root.get("$schema").and_then(Value::as_str).unwrap_or("");
    let old = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|name| draft.contains(name));
    let mut rewriter = Rewriter {
        refs: References::of(root),
        targets: Vec::new(),
        names: HashMap::new(),
        splits_one_of,
        lenient: root.pointer("/x-guidance/lenient") == Some(&Value::Bool(true)),
        siblings_count: !old,
        parts: 0,
        depth: 0,
    };
    let mut out = match rewriter.schema(root, "")? {
        Value::Object(object) => object,
        Value::Bool(true) => Object::new(),
        _ => return Err(Failure::Refused("nothing satisfies it".to_string())),
    };
    let mut definitions = Object::new();
    let mut done = 0;
    while done < rewriter.targets.len() {
        let (place, value) = rewriter.targets[done].clone();
        definitions.insert(definition(done), rewriter.schema(value, &place)?);
        done += 1;
    }
    if !definitions.is_empty() {
        out.insert("$defs".to_string(), Value::Object(definitions));
    }
    if !draft.is_empty() && old {
        out.insert("$schema".to_string(), json!(draft));
    }
    Ok(Value::Object(out))
}

fn definition(number: usize) -> String {
    format!("d{number}")
}

pub(crate) fn unsupported<T>(keyword: &str, why: &str) -> Outcome<T> {
    Err(Failure::Refused(format!("{keyword}: {why}")))
}

pub(crate) fn all_of(mut parts: Vec<Value>) -> Value {
    parts.retain(|part| !is_true(part));
    if parts.iter().any(|part| part == &Value::Bool(false)) {
        return Value::Bool(false);
    }
    match parts.len() {
        0 => Value::Bool(true),
        1 => parts.remove(0),
        _ => json!({ "allOf": parts }),
    }
}

pub(crate) fn any_of(mut parts: Vec<Value>) -> Value {
    parts.retain(|part| part != &Value::Bool(false));
    if parts.iter().any(is_true) {
        return Value::Bool(true);
    }
    match parts.len() {
        0 => Value::Bool(false),
        1 => parts.remove(0),
        _ => json!({ "anyOf": parts }),
    }
}

fn is_true(part: &Value) -> bool {
    part == &Value::Bool(true) || part.as_object().is_some_and(Map::is_empty)
}

impl<'a> Rewriter<'a> {
    pub(crate) fn count(&mut self, keyword: &str) -> Outcome<()> {
        self.parts += 1;
        match self.parts > MOST_PARTS {
            true => unsupported(keyword, "too many combinations"),
            false => Ok(()),
        }
    }

    pub(crate) fn schema(&mut self, node: &'a Value, at: &str) -> Outcome<Value> {
        self.count("schema")?;
        let object = match node {
            Value::Bool(_) => return Ok(node.clone()),
            Value::Object(object) => object,
            other => return unsupported("schema", &format!("expected an object or a boolean; got {other}")),
        };
        if object.contains_key("$ref") && !self.siblings_count {
            return self.reference(&object["$ref"], at);
        }
        if object.contains_key("unevaluatedProperties") || object.contains_key("unevaluatedItems") {
            let cases = self.cases(node, at, 0)?;
            return Ok(any_of(cases.into_iter().map(Case::whole).collect()));
        }
        let mut parts = vec![self.own(object, at)?];
        parts.extend(self.applied(object, at)?);
        Ok(all_of(parts))
    }

    /// The keywords that llguidance has and that say nothing of other places' properties, with their subschemas.
    pub(crate) fn own(&mut self, object: &'a Object, at: &str) -> Outcome<Value> {
        let mut out = Object::new();
        for (key, value) in object {
            let place = child(at, key);
            let key = key.as_str();
            if key == "format" {
                let (key, value) = known_format(value);
                match object.contains_key(key) && key == "pattern" {
                    true => out.insert("allOf".to_string(), json!([{ key: value }])),
                    false => out.insert(key.to_string(), value),
                };
            } else if PLAIN.contains(&key) {
                out.insert(key.to_string(), if COUNTS.contains(&key) { whole(value) } else { value.clone() });
            } else if WITH_SCHEMA.contains(&key) && !value.is_array() {
                out.insert(key.to_string(), self.schema(value, &place)?);
            } else if key == "prefixItems" || key == "items" {
                out.insert(key.to_string(), Value::Array(self.list(key, value, &place)?));
            } else if WITH_NAMED.contains(&key) {
                out.insert(key.to_string(), self.named(key, value, &place)?);
            }
        }
        Ok(Value::Object(out))
    }

    pub(crate) fn list(&mut self, key: &str, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let Some(items) = value.as_array() else { return unsupported(key, "expected a list of schemas") };
        items.iter().enumerate().map(|(i, item)| self.schema(item, &child(at, &i.to_string()))).collect()
    }

    fn named(&mut self, key: &str, value: &'a Value, at: &str) -> Outcome<Value> {
        let Some(items) = value.as_object() else { return unsupported(key, "expected an object of schemas") };
        let one = |(name, item): (&String, &'a Value)| -> Outcome<(String, Value)> {
            Ok((name.clone(), self.schema(item, &child(at, name))?))
        };
        Ok(Value::Object(items.iter().map(one).collect::<Outcome<Object>>()?))
    }

    /// Schemas that hold beside the own keywords.
    fn applied(&mut self, object: &'a Object, at: &str) -> Outcome<Vec<Value>> {
        let mut parts = Vec::new();
        for (key, value) in object {
            let place = child(at, key);
            match key.as_str() {
                "allOf" => parts.extend(self.list(key, value, &place)?),
                "anyOf" => {
                    let branches = self.list(key, value, &place)?;
                    parts.push(any_of(branches));
                }
                "oneOf" => parts.push(self.one_of(value, &place)?),
                "$ref" => parts.push(self.reference(value, at)?),
                "$dynamicRef" | "$recursiveRef" => parts.push(self.dynamic_reference(value, at)?),
                "if" => parts.push(self.condition(object, at)?),
                "dependentSchemas" | "dependencies" | "dependentRequired" => {
                    for (name, needed, place) in dependents(key, value, &place)? {
                        let needed = self.needed(needed, &place)?;
                        parts.push(any_of(vec![without(name), all_of(vec![json!({"required": [name]}), needed])]));
                    }
                }
                _ => parts.extend(self.constraint(object, key, value, &place)?),
            }
        }
        Ok(parts)
    }

    /// What a property needs beside it: a schema, or names.
    pub(crate) fn needed(&mut self, needed: &'a Value, at: &str) -> Outcome<Value> {
        match needed {
            Value::Array(_) => Ok(json!({ "required": needed })),
            _ => self.schema(needed, at),
        }
    }

    /// Keywords that say something of a value and nothing of which of its parts were looked at.
    pub(crate) fn constraint(
        &mut self,
        object: &'a Object,
        key: &str,
        value: &'a Value,
        place: &str,
    ) -> Outcome<Option<Value>> {
        match self.strict_constraint(object, key, value, place) {
            Err(_) if self.lenient => Ok(None),
            other => other,
        }
    }

    fn strict_constraint(
        &mut self,
        object: &'a Object,
        key: &str,
        value: &'a Value,
        place: &str,
    ) -> Outcome<Option<Value>> {
        match key {
            "not" => Ok(Some(self.negated(value, place)?)),
            "propertyNames" => Ok(Some(self.property_names(value, place)?)),
            "contains" => self.contains(object, value),
            "uniqueItems" => match value.as_bool() == Some(false) || at_most_one(object) {
                true => Ok(None),
                false => unsupported(key, "an item cannot be compared with the others"),
            },
            _ => Ok(None),
        }
    }

    pub(crate) fn reference(&mut self, value: &Value, at: &str) -> Outcome<Value> {
        let Some(reference) = value.as_str() else { return unsupported("$ref", "expected a text") };
        let (place, target) = self.refs.find(reference, at)?;
        Ok(self.to_definition(place, target))
    }

    fn dynamic_reference(&mut self, value: &Value, at: &str) -> Outcome<Value> {
        let Some(reference) = value.as_str() else { return unsupported("$dynamicRef", "expected a text") };
        let (place, target) = self.refs.find_dynamic(reference, at)?;
        Ok(self.to_definition(place, target))
    }

    fn to_definition(&mut self, place: Place, target: &'a Value) -> Value {
        if let Value::Bool(_) = target {
            return target.clone();
        }
        let next = self.targets.len();
        let number = *self.names.entry(place.clone()).or_insert(next);
        if number == next {
            self.targets.push((place, target));
        }
        json!({"$ref": format!("#/$defs/{}", definition(number))})
    }

    fn one_of(&mut self, value: &'a Value, at: &str) -> Outcome<Value> {
        let branches = self.list("oneOf", value, at)?;
        if !self.splits_one_of {
            return Ok(json!({ "oneOf": branches }));
        }
        Ok(any_of(
            self.exclusive(value, at)?.into_iter().zip(branches).map(|(no, yes)| all_of(vec![yes, no])).collect(),
        ))
    }

    /// For each branch: that no other holds.
    pub(crate) fn exclusive(&mut self, value: &'a Value, at: &str) -> Outcome<Vec<Value>> {
        let Some(branches) = value.as_array() else { return unsupported("oneOf", "expected a list of schemas") };
        let mut negated = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            negated.push(self.negated(branch, &child(at, &i.to_string())).map_err(|e| within("oneOf", e))?);
        }
        let others = |i: usize| negated.iter().enumerate().filter(move |(j, _)| *j != i).map(|(_, n)| n.clone());
        Ok((0..branches.len()).map(|i| all_of(others(i).collect())).collect())
    }

    fn condition(&mut self, object: &'a Object, at: &str) -> Outcome<Value> {
        let (yes, no) = (object.get("then"), object.get("else"));
        if yes.is_none() && no.is_none() {
            return Ok(Value::Bool(true));
        }
        let place = child(at, "if");
        let holds = self.schema(&object["if"], &place)?;
        let fails = self.negated(&object["if"], &place).map_err(|e| within("if", e))?;
        let mut branch = |key: &str, schema: Option<&'a Value>| match schema {
            Some(schema) => self.schema(schema, &child(at, key)),
            None => Ok(Value::Bool(true)),
        };
        let (yes, no) = (branch("then", yes)?, branch("else", no)?);
        Ok(any_of(vec![all_of(vec![holds, yes]), all_of(vec![fails, no])]))
    }

    fn property_names(&mut self, value: &'a Value, at: &str) -> Outcome<Value> {
        let object = match value {
            Value::Bool(true) => return Ok(Value::Bool(true)),
            Value::Bool(false) => return Ok(json!({"maxProperties": 0})),
            Value::Object(object) => object,
            other => return unsupported("propertyNames", &format!("expected a schema; got {other}")),
        };
        let only = |names: Object| json!({"properties": names, "additionalProperties": false});
        let like = |pattern: String| json!({"patternProperties": {pattern: true}, "additionalProperties": false});
        let mut parts = Vec::new();
        for (key, rule) in object {
            parts.push(match (key.as_str(), rule) {
                ("pattern", Value::String(pattern)) => like(pattern.clone()),
                ("maxLength", rule) => like(format!("^[\\s\\S]{{0,{rule}}}$")),
                ("minLength", rule) => like(format!("^[\\s\\S]{{{rule},}}$")),
                ("const", Value::String(name)) => only([(name.clone(), json!(true))].into_iter().collect()),
                ("enum", Value::Array(names)) => {
                    only(names.iter().filter_map(Value::as_str).map(|name| (name.to_string(), json!(true))).collect())
                }
                ("type", Value::String(kind)) if kind == "string" => continue,
                ("$ref", Value::String(reference)) => {
                    let (place, target) = self.refs.find(reference, at)?;
                    self.count("propertyNames")?;
                    self.property_names(target, &place)?
                }
                ("title" | "description" | "$comment", _) => continue,
                _ => return unsupported("propertyNames", &format!("'{key}' of a name is not supported")),
            });
        }
        Ok(all_of(parts))
    }

    fn contains(&mut self, object: &'a Object, value: &'a Value) -> Outcome<Option<Value>> {
        let least = object.get("minContains").and_then(Value::as_f64).unwrap_or(1.0);
        let most = object.get("maxContains").cloned();
        if least == 0.0 && most.is_none() {
            return Ok(None);
        }
        if is_true(value) {
            let mut out = Object::new();
            out.insert("minItems".to_string(), json!(least as u64));
            if let Some(most) = most {
                out.insert("maxItems".to_string(), json!(most.as_f64().unwrap_or(0.0) as u64));
            }
            return Ok(Some(Value::Object(out)));
        }
        if value == &Value::Bool(false) {
            return Ok((least > 0.0).then(|| json!({"type": ["null", "boolean", "number", "string", "object"]})));
        }
        unsupported("contains", "items cannot be counted by what they are")
    }
}

/// A count may be written as 2.0.
fn whole(value: &Value) -> Value {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && (0.0..1e15).contains(&number) => {
            json!(number as u64)
        }
        _ => value.clone(),
    }
}

/// Formats that llguidance lacks, as a pattern, or as a narrower format that it has: every address of a mail box is an
/// internationalised one too.
fn known_format(value: &Value) -> (&'static str, Value) {
    const TOKENS: &str = "(/([^~/]|~[01])*)*";
    const CHARACTER: &str = "([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})";
    let reference = || format!("^/?{CHARACTER}*((/{CHARACTER}*)*)?(\\?({CHARACTER}|[/?:])*)?(#({CHARACTER}|[/?:])*)?$");
    match value.as_str().unwrap_or("") {
        "json-pointer" => ("pattern", json!(format!("^{TOKENS}$"))),
        "relative-json-pointer" => ("pattern", json!(format!("^(0|[1-9][0-9]*)(#|{TOKENS})$"))),
        "uri-reference" | "iri-reference" => ("pattern", json!(reference())),
        "iri" => ("format", json!("uri")),
        "idn-email" => ("format", json!("email")),
        "idn-hostname" => ("format", json!("hostname")),
        _ => ("format", value.clone()),
    }
}

fn at_most_one(object: &Object) -> bool {
    object.get("maxItems").and_then(Value::as_f64).is_some_and(|most| most <= 1.0)
}

pub(crate) fn without(name: &str) -> Value {
    json!({"properties": {name: false}})
}

pub(crate) fn within(keyword: &str, failure: Failure) -> Failure {
    Failure::Refused(format!("{keyword}: {}", failure.text()))
}

/// What each property needs where it is there.
pub(crate) fn dependents<'a>(key: &str, value: &'a Value, at: &str) -> Outcome<Vec<(&'a str, &'a Value, Place)>> {
    let Some(all) = value.as_object() else { return unsupported(key, "expected an object") };
    Ok(all.iter().map(|(name, needed)| (name.as_str(), needed, child(at, name))).collect())
}
